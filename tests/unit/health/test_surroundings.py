"""Whether a broker can run on a host, by facts about it."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.health import surroundings
from hatwisted.health.judgement import Weight
from hatwisted.health.surroundings import Disk, is_well

GB = 1 << 30
DAY = 86400.0


def weights(checks):
    return [(each.name, each.weight.value if each.weight else "fine") for each in checks]


class SurroundingsTests(SynchronousTestCase):
    def disk(self, free, kind="ext4", writable=True):
        disk = Disk(
            folder="/s", writable=writable, total=100 * GB, free=free, kind=kind, file_size=GB, limit=0.75
        )
        return weights(surroundings.of_disk(disk))

    def test_disks(self):
        self.assertEqual(self.disk(50 * GB), [("disk", "fine")])
        self.assertEqual(self.disk(20 * GB), [("disk", "note")])
        self.assertEqual(self.disk(9 * GB), [("disk", "problem")])
        self.assertEqual(self.disk(2 * GB), [("disk", "problem")])
        self.assertEqual(self.disk(50 * GB, "nfs4"), [("file-system", "problem"), ("disk", "fine")])
        self.assertEqual(self.disk(50 * GB, writable=False), [("disk", "problem")])

    def test_limits(self):
        def of(*facts):
            return weights(surroundings.of_limits(*facts))

        self.assertEqual(of(65536, None, GB), [("descriptors", "fine")])
        self.assertEqual(of(20000, None, GB), [("descriptors", "note")])
        self.assertEqual(of(1024, GB - 1, GB), [("descriptors", "problem"), ("file-length", "problem")])

    def test_ports(self):
        of = surroundings.of_ports
        self.assertIsNone(of({10911: True, 10912: True}, None).weight)
        taken = of({10911: True, 10912: False}, None)
        self.assertEqual((taken.weight, taken.what), (Weight.PROBLEM, "10912: in use"))
        self.assertIsNone(of({10911: False, 10912: False}, "1 hours").weight)

    def test_clocks(self):
        def of(*facts):
            return weights(surroundings.of_clock(*facts))

        self.assertEqual(of(True, 0.5), [("clock", "fine")])
        self.assertEqual(of(None, None), [("clock", "fine")])
        self.assertEqual(of(False, None), [("clock", "note")])
        self.assertEqual(of(True, -9.0), [("clock", "problem")])

    def test_certificates(self):
        def of(days):
            return surroundings.of_certificate("haTlsCertPath", days * DAY, 0.0).weight

        self.assertEqual((of(40), of(20), of(-1)), (None, Weight.NOTE, Weight.PROBLEM))

    def test_name_servers(self):
        checks = list(surroundings.of_name_servers({"a:1": None, "b:1": "b:1: refused"}))
        self.assertEqual(weights(checks), [("name-server", "fine"), ("name-server", "problem")])
        self.assertFalse(is_well(checks))
        self.assertTrue(is_well(checks[:1]))
