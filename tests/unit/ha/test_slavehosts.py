"""Which silent connections a put waits for: a slave's, not a port scanner's."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha import slavehosts
from hatwisted.ha.slavehosts import SlaveHosts
from tests.unit.ha.rig import MasterRig
from tests.unit.ha.test_master import filled


class SlaveHostsTests(SynchronousTestCase):
    def test_a_slave_outweighs_strangers_of_its_host(self) -> None:
        memory = SlaveHosts()
        self.assertEqual((memory.is_known("a"), memory.is_suspect("a")), (False, False))
        memory.unidentified("a")
        self.assertEqual((memory.is_known("a"), memory.is_suspect("a")), (False, True))
        memory.reported("a")
        memory.unidentified("a")
        self.assertEqual((memory.is_known("a"), memory.is_suspect("a")), (True, False))

    def test_any_number_of_hosts_costs_bounded_memory(self) -> None:
        memory = SlaveHosts()
        memory.reported("slave")
        for number in range(slavehosts.MAX_HOSTS - 1):
            memory.unidentified(str(number))
        self.assertTrue(memory.is_known("slave"))
        memory.unidentified("one more")
        self.assertFalse(memory.is_known("slave"))


class SilentLinkTests(SynchronousTestCase):
    """`is_slave_ok` with a link that has said nothing."""

    def setUp(self) -> None:
        self.rig = MasterRig(filled(1000))

    def usable(self) -> bool:
        return self.rig.service.is_slave_ok(1000)

    def test_B70_a_slave_that_takes_its_time_counts_until_it_reports(self) -> None:
        slave = self.rig.slave()
        self.rig.seconds(6.5)
        self.assertTrue(self.usable())
        slave.report(1000)
        self.rig.seconds(15)
        self.assertTrue(self.usable())

    def test_B70_B71_a_lone_silent_stranger_counts_no_longer_than_a_slave_may_take(self) -> None:
        self.rig.slave()
        self.assertTrue(self.usable())
        self.rig.seconds(5 + slavehosts.REPORT_SLACK + 1.5)
        self.assertFalse(self.usable())
        self.rig.slave()
        self.assertFalse(self.usable(), "not for a second one from there either")

    def test_B71_a_host_of_strangers_is_not_waited_for_again(self) -> None:
        for greeting in (b"", b"GET / HTTP/1.1\r\n\r\n"):
            scanner = self.rig.slave()
            scanner.send(greeting)
            scanner.lose()
            self.rig.slave()
            self.assertFalse(self.usable())

    def test_B70_a_report_from_such_a_host_counts_at_once_and_from_then_on(self) -> None:
        self.rig.slave().lose()
        slave = self.rig.slave()
        slave.report(1000)
        self.assertTrue(self.usable())
        slave.lose()
        self.assertFalse(self.usable())
        self.rig.slave()
        self.rig.seconds(15)
        self.assertTrue(self.usable())

    def test_a_refused_slave_makes_no_suspect_of_its_host(self) -> None:
        ahead = self.rig.slave(2000)
        self.assertFalse(self.usable())
        ahead.lose()
        self.rig.slave()
        self.assertTrue(self.usable())
