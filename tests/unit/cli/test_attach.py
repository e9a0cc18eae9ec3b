"""`hatwisted attach` in this process: its master, its name server, and the slave that it starts are in memory."""

import sys
from pathlib import Path
from types import SimpleNamespace

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.cli.cluster import attach, copyprogress, listing
from hatwisted.cli.cluster.copyprogress import TELL, CopyScreen
from hatwisted.cli.errors import CannotRun
from hatwisted.clientcore.errors import ClientError
from hatwisted.config.load import load_broker_config
from hatwisted.config.roles import as_slave
from hatwisted.health.figures import Answers, broker_figures
from hatwisted.wire.registration import BrokerData, ClusterInfo
from tests.support.clistores import snapshot, write_log
from tests.support.clusterrig import asynchronous
from tests.support.loopback import HOST, broker_port
from tests.unit.cli.test_cluster_commands import CommandsCase, Outcome


class AttachTests(CommandsCase):
    def setUp(self):
        self.folder = Path(self.mktemp()).absolute()
        self.port = broker_port()
        self.services = {}
        self.listens = True
        self.patch(copyprogress, "INTERVAL", 0.01)
        self.patch(listing, "INTERVAL", 0.01)
        self.patch(listing, "PATIENCE", 6000)
        self.patch(copyprogress, "PATIENCE", 6000)
        self.patch(attach, "is_served", lambda store: bool(self.services))
        self.patch(attach, "start", self.start_slave)
        self.patch(attach, "twistd", lambda: "/venv/bin/twistd")
        self.patch(attach, "check_connects", self.check_connects)
        return super().setUp()

    def start_slave(self, folder):
        """As twistd would from what was written."""
        config = as_slave(load_broker_config(str(folder / "broker.conf"), host=HOST)).config
        service = build_broker(config, self.rig.parts)
        service.startService()
        self.addCleanup(service.stopService)
        self.services[f"127.0.0.1:{config.listen_port}"] = service

    def check_connects(self, address):
        if not self.listens:
            raise CannotRun(f"the master's HA port {address} can't be reached from here")

    async def attach(self, *more, name="broker-a", code=0, outcome=None):
        words = ["attach", self.rig.names.address, name, "--dir", str(self.folder), "--port", str(self.port)]
        return await self.run_words([*words, *more], code, outcome=outcome)

    def log_end(self, service):
        return service.parts.store.log.max_offset

    @asynchronous
    async def test_a_whole_copy_and_again(self):
        await self.run_command("produce", "T", given=b"hello\n" * 50)
        told = await self.attach("--json")
        plan, level = told.lines
        master = self.rig.brokers["broker-a"]
        (slave,) = self.services.values()
        self.assertEqual(self.log_end(slave), self.log_end(master))
        host, _, port = master.address.rpartition(":")
        expected = {
            "event": "planned",
            "master": master.address,
            "haAddress": f"{host}:{int(port) + 1}",
            "logBytes": self.log_end(master),
            "brokerId": 1,
            "listenPort": self.port,
            "folder": str(self.folder),
        }
        self.assertEqual(plan, expected)
        self.assertEqual((level["event"], level["problem"]), ("level", None))
        names = {"address": self.rig.names.address, "listed": True, "problem": None}
        self.assertEqual(level["nameServers"], [names])
        again = (await self.attach()).out.decode()
        self.assertEqual(len(self.services), 1, "it runs already")
        self.assertIn("level    it has all that its master has, after ", again)
        self.assertIn(f"listed   by {self.rig.names.address}: consumers find it\n", again)
        self.assertIn(f"slave    broker 1 on port {self.port}, in {self.folder}\n", again)
        self.assertIn(f"stop     kill $(cat {self.folder}/slave.pid)\n", again)

    @asynchronous
    async def test_without_starting_it_says_how(self):
        told = (await self.attach("--no-start")).out.decode()
        start = f"/venv/bin/twistd --pidfile={self.folder}/slave.pid"
        self.assertIn(start, told)
        self.assertIn("[Service]", told)
        written = (await self.attach("--no-start", "--json")).lines[1]
        self.assertEqual(written["event"], "written")
        self.assertEqual(written["start"][0], "/venv/bin/twistd")
        self.assertIn("[Service]", written["unit"])
        self.assertEqual(self.services, {})
        self.assertEqual([each.name for each in self.folder.iterdir()], ["broker.conf"])

    @asynchronous
    async def test_what_is_refused_leaves_nothing_behind(self):
        unknown = await self.attach(name="broker-b", code=2)
        self.assertIn("no broker broker-b at", unknown.err)
        self.assertIn("known there: broker-a", unknown.err)
        self.listens = False
        closed = await self.attach(code=2)
        self.assertIn("can't be reached from here", closed.err)
        self.assertFalse(self.folder.exists())

    def test_name_servers_are_named_as_by_the_option_n(self):
        context = attach.attach.make_context("attach", ["h1, [::1]:1; h2:3", "broker-a"])
        self.assertEqual(context.params["namesrv"], "h1:9876;[::1]:1;h2:3")

    @asynchronous
    async def test_a_disk_that_is_too_small_for_the_log(self):
        await self.run_command("produce", "T", given=b"hello\n" * 50)
        self.patch(attach, "place_of", self.little_room(attach.place_of))
        told = await self.attach(code=2)
        self.assertIn("100 B free, and the master's log needs", told.err)
        self.assertFalse(self.folder.exists())

    def little_room(self, place_of):
        return lambda *words: replace(place_of(*words), free=100)

    @asynchronous
    async def test_a_folder_of_another_broker_or_of_none_of_ours(self):
        self.folder.mkdir()
        conf = self.folder / "broker.conf"
        for text, said in (
            ("brokerName=other\nbrokerRole=SLAVE\n", "is of another broker, no slave of broker-a"),
            ("brokerName=broker-a\nbrokerRole=ASYNC_MASTER\n", "is of another broker, no slave of broker-a"),
            (
                "brokerName=broker-a\nbrokerRole=SLAVE\nbrokerId=1\nlistenPort=1\n",
                "lacks brokerIP1, namesrvAddr, storePathRootDir",
            ),
            ("brokerName\n=\\uzzzz", f"{conf}:2"),
        ):
            conf.write_text(text)
            told = await self.attach(code=2)
            self.assertIn(said, told.err)
            self.assertEqual(told.err.count("\n"), 1)
            self.assertEqual(conf.read_text(), text)

    @asynchronous
    async def test_an_interrupt_leaves_the_slave_to_go_on(self):
        outcome = Outcome()
        outcome.interrupt.request()
        told = await self.attach(code=130, outcome=outcome)
        self.assertIn("! interrupted; the slave goes on copying", told.err)
        self.assertEqual(len(self.services), 1)

    @asynchronous
    async def test_a_folder_with_a_log_that_nothing_says_is_this_slaves(self):
        """RocketMQ's own is ~/store: a log that another broker wrote would be gone on with."""
        await self.run_command("produce", "T", given=b"hello\n" * 50)
        size = self.rig.settings["mappedFileSizeCommitLog"]
        write_log(self.folder / "store", [b"of another broker"] * 3, file_size=size)
        before = snapshot(self.folder)
        told = await self.attach(code=2)
        self.assertIn(f"{self.folder}/store: has a log already", told.err)
        self.assertEqual(self.services, {})
        self.assertEqual(snapshot(self.folder), before)

    @asynchronous
    async def test_another_port_for_a_slave_that_was_made_before(self):
        """Its first one may have been taken when it was started."""
        await self.attach("--no-start")
        conf = self.folder / "broker.conf"
        conf.write_text(conf.read_text().replace("listenPort=", "listenPort = "))
        self.port = broker_port()
        self.assertEqual((await self.attach("--json")).lines[0]["listenPort"], self.port)
        self.assertEqual(list(self.services), [f"127.0.0.1:{self.port}"])
        running, self.port = self.port, broker_port()
        told = await self.attach(code=2)
        self.assertIn(f"the slave runs on port {running}: stop it first", told.err)

    async def edited(self, **settings):
        """As an operator who changes the slave's configuration before its start."""
        await self.attach("--no-start")
        with (self.folder / "broker.conf").open("a") as conf:
            conf.writelines(f"{key}={value}\n" for key, value in settings.items())

    @asynchronous
    async def test_a_level_slave_that_no_name_server_lists_is_a_problem(self):
        self.patch(listing, "PATIENCE", 3)
        await self.edited(namesrvAddr="127.0.0.1:1", haMasterAddress=self.ha_address())
        told = await self.attach(code=1)
        self.assertIn("level    it has all that its master has, after ", told.out.decode())
        self.assertNotIn("listed ", told.out.decode())
        address = f"127.0.0.1:{self.port}"
        self.assertIn(f"! name server {self.rig.names.address} doesn't list {address}, ", told.err)
        self.assertIn(f"namesrvAddr of {self.folder}/broker.conf", told.err)
        self.assertEqual(told.err.count("waiting for the name servers"), 1)
        ended = (await self.attach("--json", code=1)).lines[1]
        self.assertEqual(ended["event"], "problem")
        self.assertIn(f"doesn't list {address}", ended["problem"])
        self.assertEqual([each["listed"] for each in ended["nameServers"]], [False])

    def ha_address(self):
        host, _, port = self.rig.brokers["broker-a"].address.rpartition(":")
        return f"{host}:{int(port) + 1}"

    @asynchronous
    async def test_an_interrupt_while_the_name_servers_are_asked(self):
        await self.edited(namesrvAddr="127.0.0.1:1", haMasterAddress=self.ha_address())
        asks = attach.ask_until_listed

        def interrupted(cluster, slave, interrupt, tell):
            interrupt.request()
            return asks(cluster, slave, interrupt, tell)

        self.patch(attach, "ask_until_listed", interrupted)
        told = await self.attach(code=130)
        self.assertIn("level    it has all", told.out.decode())
        self.assertEqual(told.err, "! interrupted; the slave goes on copying\n")

    @asynchronous
    async def test_a_slave_that_takes_nothing_is_a_problem(self):
        self.patch(copyprogress, "PATIENCE", 3)
        self.patch(attach, "start", lambda folder: None)
        told = await self.attach("--json", code=1)
        level = told.lines[1]
        self.assertEqual(level["event"], "problem")
        self.assertIn(f"127.0.0.1:{self.port}", level["problem"])

    @asynchronous
    async def test_a_group_without_a_master_and_one_that_is_silent(self):
        for addresses, said in (
            ({1: "127.0.0.1:1"}, "broker-a has no master at"),
            ({0: "127.0.0.1:1"}, "the master of broker-a doesn't answer: 127.0.0.1:1"),
        ):
            group = BrokerData(broker_name="broker-a", cluster="C", broker_addrs=addresses)
            info = ClusterInfo(broker_addr_table={"broker-a": group})
            self.patch(self.rig.names.routes, "cluster_info", lambda info=info: info)
            told = await self.attach(code=2)
            self.assertIn(said, told.err)


class ListingTests(SynchronousTestCase):
    """What one name server's answer comes to."""

    slave = listing.Slave(group="broker-a", id=1, address="h:2", conf="/copy/broker.conf")

    def judged(self, members):
        table = {
            name: BrokerData(broker_name=name, cluster="C", broker_addrs=addresses)
            for name, addresses in members.items()
        }
        return listing.listing("n:9876", ClusterInfo(broker_addr_table=table), self.slave)

    def test_only_its_own_address_under_its_own_id_is_it(self):
        found = self.judged({"broker-a": {0: "h:1", 1: "h:2"}})
        self.assertEqual(found, listing.Listing(address="n:9876", listed=True))

    def test_another_one_under_its_id_takes_its_place(self):
        problem = self.judged({"broker-a": {0: "h:1", 1: "h:3"}}).problem
        self.assertIn("lists h:3 as broker 1 of broker-a, not h:2", problem)
        self.assertIn("another brokerId in /copy/broker.conf", problem)

    def test_who_is_not_there_is_told_where_to_look(self):
        for members in ({}, {"broker-a": {0: "h:1"}}, {"broker-b": {1: "h:2"}}):
            self.assertIn("name server n:9876 doesn't list h:2", self.judged(members).problem)

    def test_a_silent_one(self):
        found = listing.listing("n:9876", ClientError("refused"), self.slave)
        self.assertFalse(found.listed)
        self.assertIn("name server n:9876 doesn't answer", found.problem)


class CopyScreenTests(SynchronousTestCase):
    """Where there is no terminal."""

    def setUp(self):
        self.lines = []
        self.patch(sys, "stderr", SimpleNamespace(isatty=lambda: False, write=lambda text: None))

    def figures(self, number, end, begin=0, at=0.0):
        said = {"commitLogMinOffset": str(begin), "commitLogMaxOffset": str(end)}
        return broker_figures("a", number, "h:1", Answers(at=at, runtime=said))

    def show(self, count, quiet=False, rate=1 << 20):
        """One answer a second: the slave has taken `rate` more."""
        with CopyScreen(quiet, self.lines.append) as shown:
            for second in range(1, count + 1):
                slave = self.figures(1, (1 << 30) + second * rate, at=float(second))
                shown.update(slave, self.figures(0, 3 << 30, begin=1 << 30))

    def test_a_line_now_and_then_with_rate_and_time_left(self):
        self.show(2 * TELL)
        self.assertEqual(len(self.lines), 2)
        self.assertEqual(self.lines[1], "copying  1% of 2.0 GiB, 1.0 MiB/s, 34 min left")

    def test_none_who_stands_still_has_a_time_left(self):
        self.show(TELL, rate=0)
        self.assertEqual(self.lines, ["copying  0% of 2.0 GiB, 0 B/s"])

    def test_quiet(self):
        self.show(2 * TELL, quiet=True)
        self.assertEqual(self.lines, [])

    def test_nothing_is_shown_of_who_says_nothing(self):
        with CopyScreen(False, self.lines.append) as shown:
            for _ in range(2 * TELL):
                shown.update(self.figures(1, 0), self.figures(0, 1000))
                shown.update(self.figures(1, 10), self.figures(0, 0))
        self.assertEqual(self.lines, [])
