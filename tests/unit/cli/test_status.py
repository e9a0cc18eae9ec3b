"""`hatwisted status` against brokers in this process: screen, JSON, exit codes."""

import json
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

from click.testing import CliRunner
from rich.console import Console
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import status
from hatwisted.cli.cluster.looking import look_at
from hatwisted.cli.cluster.status import EVENTS
from hatwisted.cli.cluster.statusscreen import MOST_EVENTS, MOST_GROUPS, screen
from hatwisted.cli.main import main
from hatwisted.clientcore import survey
from hatwisted.clientcore.survey import GROUPS_AT_ONCE, Survey
from hatwisted.health.events import Event
from hatwisted.health.figures import Answers, GroupProgress, Look, View, broker_figures
from hatwisted.health.judgement import findings
from hatwisted.health.words import span_text
from tests.support.clusterrig import asynchronous
from tests.unit.cli import test_cluster_commands as commands

NAMES = "10.0.0.1:9876"


class StatusTests(commands.TestCommands):
    """In a cluster of one master. The other commands' tests aren't run again."""

    @asynchronous
    async def test_a_master_alone(self):
        await self.run_command("produce", "T", given=b"a\nb\n")
        seen = await self.run_command("status", "--json")
        address = json.loads(seen.out)["brokers"][0]["address"]
        cluster = self.rig.new_cluster()
        told_by_28 = await cluster.admin().broker_info(address)
        told = json.loads(seen.out)
        (broker,) = told["brokers"]
        self.assertEqual((broker["group"], broker["id"], broker["role"]), ("broker-a", 0, "ASYNC_MASTER"))
        self.assertEqual(broker["logEnd"], int(told_by_28["commitLogMaxOffset"]))
        self.assertEqual([each["name"] for each in told["findings"]], ["no-copy"])
        self.assertTrue(told["healthy"])
        shown = (await self.run_command("status")).out.decode()
        self.assertIn("all well", shown)
        self.assertIn(f"hatwisted attach {self.rig.names.address} broker-a", " ".join(shown.split()))

    @asynchronous
    async def test_groups_that_were_not_looked_at_are_counted(self):
        await self.run_command("produce", "T", given=b"a\nb\n")
        for group in ("one", "two", "three"):
            await self.run_command("group", "create", group)
        self.patch(survey, "MOST_GROUPS", 1)
        told = json.loads((await self.run_command("status", "--json")).out)
        self.assertEqual(told["groupsNotAsked"], 2)
        shown = (await self.run_command("status")).out.decode()
        self.assertIn("2 more groups not looked at", shown)

    @asynchronous
    async def test_a_broker_that_is_gone_is_a_problem(self):
        await self.rig.brokers["broker-a"].stopService()
        seen = await self.run_command("status", "--json", code=1)
        self.assertIn(
            [each["name"] for each in json.loads(seen.out)["findings"]], (["no-broker"], ["broker-silent"])
        )

    @asynchronous
    async def test_watching_ends_at_an_interrupt(self):
        outcome = commands.Outcome()
        outcome.interrupt.request()
        await self.run_command("status", "--watch", outcome=outcome)

    @asynchronous
    async def test_brokers_are_asked_on_when_their_name_server_is_gone(self):
        cluster = self.rig.new_cluster()
        before = await look_at(cluster)
        await self.rig.names.stopService()
        now = await look_at(cluster, before=before)
        (broker,) = now.brokers
        self.assertIsNone(broker.error)
        found = [each.name for each in findings(View(before=before, now=now))]
        self.assertEqual(found, ["name-server-silent", "no-copy"])

    @asynchronous
    async def test_no_name_server(self):
        seen = await self.run_command("status", namesrv="127.0.0.1:1", code=2)
        self.assertIn("no name server answered", seen.err)
        self.assertNotIn("Traceback", seen.err)


for name in [each for each in dir(commands.TestCommands) if each.startswith("test_")]:
    setattr(StatusTests, name, None)


class NameServerTests(SynchronousTestCase):
    def asked(self, text, *words):
        """Whom it asks with a configuration of this text."""
        path = Path(self.mktemp())
        path.write_text(text)
        asked = []
        done = CliRunner(env={"NAMESRV_ADDR": None}).invoke(
            main, ["status", "--conf", str(path), *words], obj=lambda servers, _: asked.append(servers) or 0
        )
        return asked, done.output

    def test_those_of_a_configuration(self):
        self.assertEqual(self.asked("namesrvAddr=a:1;b:2\n", "-n", "c:3")[0], ["a:1;b:2"])

    def test_one_that_names_none_is_not_about_whoever_runs_here(self):
        for text in ("brokerName=a\n", "namesrvAddr=\n"):
            self.assertEqual(self.asked(text, "-n", "c:3")[0], ["c:3"])
            asked, said = self.asked(text)
            self.assertEqual(asked, [])
            self.assertIn("sets no namesrvAddr: name the servers by -n HOST", said)


class EventTests(SynchronousTestCase):
    def test_so_many_are_kept_and_the_last_of_them_shown(self) -> None:
        self.assertGreater(EVENTS, MOST_EVENTS)
        self.patch(status, "EVENTS", 2 * MOST_EVENTS)
        numbers = iter(range(1000))

        async def look(cluster, *, consumers, before=None):
            return Look(at=1.0, name_servers={}, brokers=[], groups=[])

        def events(before, now):
            return [Event(at=1.0, name="e", where="w", what=f"number {next(numbers)}") for _ in range(5)]

        self.patch(status, "look_at", look)
        self.patch(status, "events", events)
        outcome = commands.Outcome()
        looker = status._Looker(SimpleNamespace(clock=Clock()), outcome.interrupt, consumers=False)
        outcome.interrupt.request()
        for _ in range(10):
            view = self.successResultOf(Deferred.fromCoroutine(looker.next(0)))
        kept = [each.what for each in looker.happened]
        self.assertEqual(kept, [f"number {number}" for number in range(50 - 2 * MOST_EVENTS, 50)])
        console = Console(width=80, record=True, file=StringIO())
        console.print(screen(view, [], list(looker.happened)))
        shown = [line.split(": ")[1] for line in console.export_text().splitlines() if "number" in line]
        self.assertEqual(shown, kept[-MOST_EVENTS:])


class GroupTests(SynchronousTestCase):
    def test_so_many_are_asked_about_at_once(self) -> None:
        asked = []

        async def gather(waiting):
            asked.append(list(waiting))
            return [await each for each in asked[-1]]

        async def progress(self, group):
            return [group]

        self.patch(survey, "gather", gather)
        self.patch(Survey, "_progress", progress)
        names = [f"g{number}" for number in range(2 * GROUPS_AT_ONCE + 1)]
        found = self.successResultOf(Deferred.fromCoroutine(Survey(SimpleNamespace()).progress(names)))
        self.assertEqual(found, {name: [name] for name in names})
        self.assertEqual([len(each) for each in asked], [GROUPS_AT_ONCE, GROUPS_AT_ONCE, 1])


class ScreenTests(SynchronousTestCase):
    def test_it_fits_80_columns(self):
        def broker(number, end, at):
            runtime = {
                "commitLogMinOffset": "1099511627776",
                "commitLogMaxOffset": str(end),
                "brokerVersionDesc": "V5_3_3",
                "putTps": "120000.5 1 1",
                "getTransferredTps": "120000.5 1 1",
                "commitLogDiskRatio": "0.83",
                "dispatchBehindBytes": "999999999",
                "remainHowManyDataToFlush": "900.5 MiB",
            }
            answers = Answers(at=at, runtime=runtime, config={"brokerRole": "SYNC_MASTER"})
            address = "192.168.100.100:10911"
            return broker_figures("a-broker-with-a-rather-long-name", number, address, answers)

        def look(at, ends):
            brokers = [broker(number, end, at) for number, end in enumerate(ends)]
            groups = [GroupProgress(name="g" * 60, behind=10**9, members=12)] * 9
            return Look(at=at, name_servers={NAMES: None, "b:1": "refused"}, brokers=brokers, groups=groups)

        end = 1 << 41
        view = View(before=look(10.0, (end, end - 10**10)), now=look(12.0, (end + 10**9, end - 10**9)))
        wide = Console(width=200, record=True, file=StringIO())
        wide.print(screen(view, findings(view)))
        self.assertEqual([each for each in wide.export_text().splitlines() if each.endswith(" ")], [])
        console = Console(width=80, record=True, file=StringIO())
        console.print(screen(view, findings(view)))
        lines = console.export_text().splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        text = "\n".join(lines)
        self.assertIn("1.9 GiB behind", text)
        self.assertEqual(text.count(f"{10**9:>12,}  ggg"), MOST_GROUPS)
        self.assertIn(f"and {9 - MOST_GROUPS} more", text)
        self.assertIn("b:1  no answer", text)
        self.assertNotIn("…", text)
        marks, heads = ("! ", "- "), ("name server", "a-broker-with-a-rather-long-name", "consumer groups")
        begins = [each for each in lines[1:] if each and not each.startswith((" ", *marks))]
        self.assertTrue(all(each.startswith(heads) for each in begins), f"folded to the edge: {begins}")

    def test_spans(self):
        told = [span_text(each) for each in (0.42, 42, 600, 9000)]
        self.assertEqual(told, ["0.4 s", "42 s", "10 min", "2.5 h"])
