"""`hatwisted produce|consume|topic|group|cluster` in this process, against a cluster in it too.

Signals, pipes and terminals need processes of their own: tests/system/test_commands.py.
"""

import errno
import io
import json
import os
import sys
import tempfile
from dataclasses import replace
from types import MappingProxyType

import click
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from hatwisted.cli.cluster import grouplag
from hatwisted.cli.cluster.clusterrun import Interrupt, exit_code
from hatwisted.cli.main import main
from hatwisted.cli.output import counted
from hatwisted.client.admin import Admin
from hatwisted.client.cluster import Cluster
from hatwisted.client.consumer import Consumer
from hatwisted.client.driver import deferred
from hatwisted.clientcore import admin
from hatwisted.clientcore.message import Message
from hatwisted.namesrv.members import Member, Source
from hatwisted.store.queue.queuetable import ConsumeQueueTable
from hatwisted.wire.registration import BrokerData, ClusterInfo, DataVersion
from tests.support.clusterrig import ClusterRig, asynchronous
from tests.support.loopback import loopback, loopback_parts
from tests.support.patience import STALL_SECONDS, patient


class Outcome:
    """What one command printed and how it ended."""

    def __init__(self):
        self.stdout = io.TextIOWrapper(io.BytesIO(), write_through=True)
        self.stderr = io.TextIOWrapper(io.BytesIO(), write_through=True)
        self.code = None
        self.interrupt = Interrupt()

    @property
    def out(self):
        return self.stdout.buffer.getvalue()

    @property
    def err(self):
        return self.stderr.buffer.getvalue().decode()

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


class CommandsCase(TestCase):
    timeout = 50
    patience = STALL_SECONDS
    settings = MappingProxyType({})

    def setUp(self):
        self.rig = ClusterRig(self, parts=loopback_parts(), **self.settings)
        return self.rig.start()

    async def run_command(self, *arguments, code=0, given=b"", namesrv=None, outcome=None):
        """One run with its own standard streams; asserts its exit code."""
        words = [*arguments, "-n", namesrv or self.rig.names.address]
        return await self.run_words(words, code, given, outcome)

    async def run_words(self, words, code=0, given=b"", outcome=None):
        """As run_command, of a command that takes no -n."""
        await self.rig.until_dispatched()  # what the test itself has sent
        outcome = outcome or Outcome()
        planned = []
        with tempfile.TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            self.patch(sys, "stdin", stdin)
            self.patch(sys, "stdout", outcome.stdout)
            self.patch(sys, "stderr", outcome.stderr)
            try:
                # click's own way to run: the reactor is running already, so the work is taken out and awaited.
                main.main(words, standalone_mode=False, obj=lambda *plan: planned.append(plan) or 0)
            except SystemExit as exit_:
                outcome.code = exit_.code
            except click.ClickException as error:
                error.show(sys.stderr)
                outcome.code = error.exit_code
            if planned:
                outcome.code = await self.work(outcome, *planned[0])
            self.patch(sys, "stdout", sys.__stdout__)
            self.patch(sys, "stderr", sys.__stderr__)
        self.assertEqual(outcome.code, code, outcome.err)
        await self.rig.until_dispatched()
        return outcome

    async def work(self, outcome, namesrv, work):

        cluster = patient(Cluster(reactor, namesrv, connecting=loopback), self.patience)
        try:
            result = await work(cluster, outcome.interrupt) or 0
        except BaseException:
            result = Failure()
        await cluster.close()
        try:
            return exit_code(result)
        except click.ClickException as error:
            error.show(sys.stderr)
            return error.exit_code


class TestCommands(CommandsCase):
    # A slave takes progress once its link has brought something more, if only a word.
    settings = MappingProxyType({"haSendHeartbeatInterval": 100})

    @asynchronous
    async def test_lines_in_and_lines_out(self):
        given = b"".join(b"line %d\n" % number for number in range(300)) + b"no end"
        sent = await self.run_command("produce", "Lines", given=given)
        self.assertIn("301 stored, 0 failed", sent.err)
        got = await self.run_command("consume", "Lines", "--from", "first", "-c", "301")
        self.assertEqual(sorted(got.out.splitlines()), sorted(given.splitlines()))
        short = await self.run_command("consume", "Lines", "-c", "1", "--idle", "0.2", code=1)
        self.assertEqual(short.out, b"")

    @asynchronous
    async def test_idle_is_counted_from_when_it_reads(self):
        """A cluster that takes its time to let it join isn't a topic without messages."""
        begun, ended, start, stop = [], [], Consumer.start, Consumer.stop

        async def slowly(consumer):
            await deferLater(reactor, 0.3)
            await start(consumer)
            begun.append(reactor.seconds())

        def noted(consumer):
            ended.append(reactor.seconds())
            return stop(consumer)

        self.patch(Consumer, "start", slowly)
        self.patch(Consumer, "stop", noted)
        await self.run_command("produce", "Late", given=b"a\n")
        await self.run_command("consume", "Late", "--from", "last", "--idle", "0.3")
        self.assertGreaterEqual(ended[0] - begun[0], 0.3)

    @asynchronous
    async def test_looking_without_a_group_takes_nothing_from_anybody(self):
        await self.run_command("produce", "Seen", given=b"a\nb\n")
        for words in ((), ("--peek",), ("--from", "1h")):
            begin = () if "--from" in words else ("--from", "first")
            got = await self.run_command("consume", "Seen", *words, *begin, "-c", "2")
            self.assertEqual(sorted(got.out.splitlines()), [b"a", b"b"])
        tables = self.rig.brokers["broker-a"].parts.tables
        self.assertEqual(tables.offsets.queues("TOOLS_CONSUMER", "Seen"), {})
        await self.run_command("consume", "Seen", "--peek", "-g", "g", code=2)

    @asynchronous
    async def test_a_reset_shows_where_queues_would_go_and_asks(self):
        await self.run_command("produce", "Moved", given=b"a\nb\n")
        await self.run_command("consume", "Moved", "-g", "movers", "--from", "first", "-c", "2")
        typo = await self.run_command("group", "reset", "mover", "Moved", "first", code=2)
        self.assertIn("group mover: no broker knows it", typo.err)
        self.assertIn("did you mean movers?", typo.err)
        asked = []

        def confirm(text, **_):
            asked.append(text)
            raise click.Abort

        self.patch(click, "confirm", confirm)
        with self.assertRaises(click.Abort):
            await self.run_command("group", "reset", "movers", "Moved", "first")
        self.assertEqual(asked, ["Move group movers (0 members connected) in topic Moved?"])
        plan = await self.rig.new_cluster().admin().reset_plan("movers", "Moved", 0)
        self.assertEqual(sum(old - new for old, new in plan.values() if old is not None), 2)
        standings = await self.rig.new_cluster().admin().progress("movers")
        self.assertEqual(sum(each.consumed for each in standings if each.queue.topic == "Moved"), 2)

    @asynchronous
    async def test_an_expression_where_none_is_allowed_says_what_to_set(self):
        await self.run_command("produce", "Sql", given=b"a\n")
        refused = await self.run_command(
            "consume", "Sql", "--sql", "a = 1", "--from", "first", "-c", "1", "--idle", "5", code=2
        )
        self.assertIn("enablePropertyFilter=true", refused.err)

    @asynchronous
    async def test_a_slave_that_does_not_copy_is_a_problem(self):
        await self.rig.add_broker("slave", "broker-a", role="SLAVE")
        await self.run_command("produce", "Well", given=b"a\n")
        slave = self.rig.brokers["slave"]
        await self.rig.until(lambda: slave.parts.store.log.max_offset == self.master_end())
        master, copy = (await self.run_command("cluster", "list", "--json")).lines[0]
        self.assertEqual((master["role"], copy["role"]), ("master", "slave"))
        self.assertEqual((copy["state"], copy["lag"]), ("copying", 0))
        self.assertEqual([type(master[name]) for name in ("id", "putTps", "logEnd")], [int, float, int])
        for line in (await self.run_command("cluster", "list")).out.decode().splitlines():
            self.assertLessEqual(len(line.rstrip()), 80)
        await slave.services.ha_client.stopService()
        bad = await self.run_command("cluster", "list", code=1)
        self.assertIn("broker-a 1: its link to the master is stopped", bad.err)

    @asynchronous
    async def test_an_interrupt_while_it_begins_is_heard(self):
        await self.run_command("produce", "Early", given=b"a\n")
        outcome = Outcome()
        outcome.interrupt.request()
        words = ("consume", "Early", "--from", "first", "--idle", "5")
        self.assertEqual((await self.run_command(*words, outcome=outcome)).out, b"")

    @asynchronous
    async def test_one_key_in_and_in_order_out(self):
        given = b"".join(b"%d\n" % number for number in range(100))
        await self.run_command("produce", "Order", "--order-key", "k", given=given)
        got = await self.run_command("consume", "Order", "--orderly", "--from", "first", "-c", "100")
        self.assertEqual(got.out, given)

    @asynchronous
    async def test_ndjson_in_and_out_and_bad_lines_are_named(self):
        lines = [
            {"body": "a", "tags": "red", "keys": ["k1", "k2"], "properties": {"p": "1"}},
            {"body64": "/w=="},
        ]
        given = "".join(json.dumps(line) + "\n" for line in lines) + '{"bodi": "x"}\nnonsense\n'
        sent = await self.run_command("produce", "Ndjson", "--ndjson", "--json", given=given.encode(), code=1)
        self.assertEqual(len(sent.lines), 2)
        self.assertIn("line 3:", sent.err)
        self.assertIn("line 4:", sent.err)
        got = await self.run_command("consume", "Ndjson", "--json", "--from", "first", "-c", "2")
        first, second = sorted(got.lines, key=lambda line: "body" not in line)
        self.assertEqual((first["body"], first["tags"], first["keys"]), ("a", "red", ["k1", "k2"]))
        self.assertEqual((first["properties"]["p"], second["body64"]), ("1", "/w=="))
        self.assertEqual(
            {line["messageId"] for line in sent.lines}, {line["messageId"] for line in got.lines}
        )

    @asynchronous
    async def test_what_consume_prints_produce_takes(self):
        await self.run_command("produce", "From", "--tags", "t", "--keys", "a b", given=b"x\n\xff\n")
        got = await self.run_command("consume", "From", "--json", "--from", "first", "-c", "2")

        def what(lines):
            return sorted((str(each.get("body")), each["tags"], each["keys"]) for each in lines)

        for topic, arrives, times in (("To", "To", 1), ("-", "From", 2)):
            await self.run_command("produce", topic, "--ndjson", given=got.out)
            words = ("consume", arrives, "-g", "copies", "--json", "--from", "first", "-c", str(2 * times))
            copies = (await self.run_command(*words)).lines
            self.assertEqual(what(copies), sorted(what(got.lines) * times))
            self.assertEqual(len({each["messageId"] for each in copies}), 2 * times, "a copy has its own id")
        await self.run_command("produce", "-", given=b"x\n", code=2)

    @asynchronous
    async def test_interrupted_a_consumer_commits_and_ends_in_order(self):
        producer = self.rig.new_cluster().producer("p")
        for number in range(5):
            await producer.send(Message(topic="Int", body=b"%d" % number))
        outcome = Outcome()
        running = Deferred.fromCoroutine(
            self.run_command("consume", "Int", "-g", "hatwisted-cli", "--from", "first", outcome=outcome)
        )
        await self.rig.until(lambda: outcome.out.count(b"\n") == 5)
        outcome.interrupt.request()
        await running
        standings = await self.rig.new_cluster().admin().progress("hatwisted-cli")
        self.assertEqual(sum(each.consumed for each in standings if each.queue.topic == "Int"), 5)

    @asynchronous
    async def test_no_cluster_is_one_line_and_exit_code_2(self):
        for arguments in (("topic", "list"), ("produce", "T"), ("consume", "T"), ("cluster", "list")):
            outcome = await self.run_command(*arguments, namesrv="127.0.0.1:1", code=2)
            self.assertEqual(outcome.err.count("\n"), 1, outcome.err)
            self.assertIn("127.0.0.1:1", outcome.err)
            self.assertIn("Is one running there, ", outcome.err)

    @asynchronous
    async def test_what_is_not_there_is_named_and_exit_code_2(self):
        for arguments in (
            ("consume", "Nowhere"),
            ("topic", "show", "Nowhere"),
            ("topic", "delete", "Nowhere", "--yes"),
            ("topic", "delete", "Nowhere"),
            ("group", "show", "Nowhere"),
            ("group", "delete", "Nowhere", "--yes"),
            ("group", "delete", "Nowhere"),
            ("group", "reset", "some-group", "Nowhere", "first"),
            ("group", "reset", "some-group", "Nowhere", "first", "--yes"),
        ):
            outcome = await self.run_command(*arguments, code=2)
            self.assertEqual(outcome.err.count("\n"), 1, outcome.err)
            self.assertIn("Nowhere", outcome.err)
            self.assertNotIn("%RETRY%", outcome.err)
        await self.run_command("topic", "create", "T", "-c", "OtherCluster", code=2)
        for arguments in (("consume", "T", "--from", "noon"), ("topic", "create", "a b"), ("produce", "a b")):
            await self.run_command(*arguments, code=2)

    @asynchronous
    async def test_progress_that_cannot_be_kept_is_reported(self):
        await self.run_command("produce", "Kept", given=b"x\n")
        blocked = await self.run_command("consume", "Kept", "--broadcast", "/dev/null/offsets", code=2)
        self.assertIn("/dev/null/offsets", blocked.err)
        outcome = Outcome()
        words = ("consume", "Kept", "-g", "kept", "--from", "first")
        running = Deferred.fromCoroutine(self.run_command(*words, code=1, outcome=outcome))
        await self.rig.until(lambda: outcome.out)
        await self.rig.stop_broker("broker-a")
        outcome.interrupt.request()
        await running
        self.assertIn("couldn't be committed", outcome.err)

    @asynchronous
    async def test_an_interrupt_finishes_what_was_sent_and_leaves_the_other_lines(self):
        outcome = Outcome()
        words = ("produce", "Cut", "--json", "--no-batch")
        running = Deferred.fromCoroutine(
            self.run_command(*words, code=130, given=b"line\n" * 12000, outcome=outcome)
        )
        await self.rig.until(lambda: outcome.out)
        outcome.interrupt.request()
        await running
        sent = len(outcome.lines)
        self.assertLess(sent, 12000)
        self.assertEqual(outcome.err, f"interrupted: no line after {sent} was sent\n")
        store = self.rig.brokers["broker-a"].parts.store
        self.assertEqual(sum(store.queue_end("Cut", number) for number in range(8)), sent)

    @asynchronous
    async def test_tags_and_sql_exclude_each_other(self):
        await self.run_command("consume", "T", "--tags", "a", "--sql", "TAGS = 'b'", code=2)

    async def fill_queues(self, topic):
        """Two queues, with the messages 0-0 to 0-4, and 1-0 to 1-4."""
        await self.run_command("topic", "create", topic, "-q", "2")
        producer = self.rig.new_cluster().producer("p")
        queues = sorted(await producer.queues(topic))
        self.assertEqual([each.queue_id for each in queues], [0, 1])
        for queue in queues:
            for number in range(5):
                body = b"%d-%d" % (queue.queue_id, number)
                await producer.send(Message(topic=topic, body=body, keys=[f"k{number}"]), queue=queue)

    @asynchronous
    async def test_looking_from_an_offset_in_a_queue_to_its_end(self):
        await self.fill_queues("Kcat")
        for words, expected in (
            (("-o", "beginning", "-p", "1"), b"1-0 1-1 1-2 1-3 1-4"),
            (("-o", "3", "-p", "0"), b"0-3 0-4"),
            (("-o", "-2"), b"0-3 0-4 1-3 1-4"),
            (("-o", "-99", "-p", "broker-a/0", "-c", "2"), b"0-0 0-1"),
            (("-o", "end"), b""),
            (("-o", "s@1h", "-p", "0"), b"0-0 0-1 0-2 0-3 0-4"),
            (("--from", "first", "-p", "1", "--tags", "none"), b""),
            (("-o", "s@2100-01-01", "-o", "e@2100-01-02"), b""),
            (("--from", "2100-01-01"), b""),
            (("--from", "2h", "-p", "0"), b"0-0 0-1 0-2 0-3 0-4"),
            (("--from", "first", "-o", "e@2h"), b""),
            (("--from", "first", "-o", "e@2100-01-01", "-p", "0"), b"0-0 0-1 0-2 0-3 0-4"),
        ):
            got = await self.run_command("consume", "Kcat", *words, "-e")
            self.assertEqual(sorted(got.out.split()), expected.split(), words)
            self.assertEqual(got.err, "")
        moved = await self.run_command("consume", "Kcat", "-o", "9", "-e")
        lines = moved.err.splitlines()
        self.assertEqual(lines[0], "queue 0 of broker-a has offsets 0 to 5: reading from 5, not from 9")
        self.assertEqual((len(lines), moved.out), (2, b""))
        wrong = await self.run_command("consume", "Kcat", "-p", "7", "-e", code=2)
        self.assertIn("has no queue 7; there are: broker-a/0, broker-a/1", wrong.err)
        offsets = self.rig.brokers["broker-a"].parts.tables.offsets
        self.assertEqual(offsets.topics_by_group(), {}, "somebody's progress was noted")

    @asynchronous
    async def test_a_member_ends_where_its_queues_end(self):
        await self.fill_queues("Kcat")
        got = await self.run_command("consume", "Kcat", "-g", "g", "--from", "first", "-e")
        self.assertEqual(len(got.out.split()), 10)
        again = await self.run_command("consume", "Kcat", "-g", "g", "-e")
        self.assertEqual(again.out, b"")

    @asynchronous
    async def test_a_body_that_cant_be_read_is_reported_and_not_taken_for_consumed(self):
        await self.run_command("topic", "create", "Packed", "-q", "1")
        producer = self.rig.new_cluster().producer("p")
        await producer.send(Message(topic="Packed", body=b"one"))
        packed = producer._core.outgoing(Message(topic="Packed", body=b"no zlib"))
        await deferred(producer._core.deliver(replace(packed, sys_flag=0x301)))
        await producer.send(Message(topic="Packed", body=b"three"))
        for words, said in (((), "is skipped"), (("-g", "g"), "is sent back")):
            got = await self.run_command("consume", "Packed", "--from", "first", "-e", *words, code=1)
            self.assertEqual(got.out, b"one\nthree\n")
            self.assertIn("offset 1: the body is not zlib", got.err)
            self.assertIn(said, got.err)
            self.assertEqual(got.err.count("\n"), 1)
        store = self.rig.brokers["broker-a"].parts.store
        self.assertEqual(store.queue_end("SCHEDULE_TOPIC_XXXX", 2), 1, "on its way to the retries")

    @asynchronous
    async def test_lines_as_kcat_prints_them(self):
        await self.fill_queues("Kcat")
        at = ("consume", "Kcat", "-o", "1", "-p", "1", "-c", "1")
        shown = await self.run_command(*at, "-f", r"%t [%p] at %o: key %k: %s\n")
        self.assertEqual(shown.out, b"Kcat [1] at 1: key k1: 1-1\n")
        shown = await self.run_command(*at, "-K", ":")
        self.assertEqual(shown.out, b"k1:1-1\n")

    @asynchronous
    async def test_keys_come_before_a_separator(self):
        given = b"a:one\nb:two\na:three:3\nplain\n"
        await self.run_command("produce", "Keyed", "-K", ":", given=given)
        got = (await self.run_command("consume", "Keyed", "--from", "first", "-e", "--json")).lines
        self.assertEqual(
            sorted((each["body"], each["keys"]) for each in got),
            [("one", ["a"]), ("plain", []), ("three:3", ["a"]), ("two", ["b"])],
        )
        of_a = [(each["queueId"], each["queueOffset"], each["body"]) for each in got if each["keys"] == ["a"]]
        self.assertEqual(len({queue for queue, _, _ in of_a}), 1, "messages of one key share a queue")
        self.assertEqual([body for _, _, body in sorted(of_a)], ["one", "three:3"])

    @asynchronous
    async def test_options_that_contradict_each_other(self):
        for words in (
            ("-o", "1", "-g", "g"),
            ("-p", "1", "-g", "g"),
            ("-o", "1", "--from", "first"),
            ("-o", "1", "--broadcast", "f"),
            ("-o", "noon"),
            ("-p", "x"),
            ("-f", "%z"),
            ("-f", "%s", "-K", ":"),
            ("-K", ":", "--json"),
        ):
            refused = await self.run_command("consume", "T", *words, code=2)
            self.assertIn("Error: ", refused.err)
        for words in (("-K", ":", "--ndjson"), ("-K", ""), ("-K", "\\q")):
            await self.run_command("produce", "T", *words, code=2)

    @asynchronous
    async def test_what_a_group_is_behind_is_skipped(self):
        await self.fill_queues("Far")
        await self.run_command("produce", "Other", given=b"a\nb\n")
        for topic in ("Far", "Other"):
            await self.run_command("consume", topic, "-g", "lazy", "--from", "first", "-c", "1")
        asked = []

        def confirm(text, **_):
            asked.append(text)
            raise click.Abort

        with self.assertRaises(click.Abort):
            self.patch(click, "confirm", confirm)
            await self.run_command("group", "skip", "lazy")
        self.assertEqual(
            asked, ["Skip 10 messages of group lazy (0 members connected) in Far, Other?"], "9 and 1"
        )
        done = (await self.run_command("group", "skip", "lazy", "Far", "--yes", "--json")).lines[0]
        self.assertEqual([(each["topic"], each["offset"]) for each in done], [("Far", 5), ("Far", 5)])
        lag = (await self.run_command("group", "lag", "lazy", "--json")).lines[0]["groups"][0]
        self.assertEqual({each["topic"]: each["behind"] for each in lag["topics"]}, {"Far": 0, "Other": 1})
        self.assertEqual((await self.run_command("group", "skip", "lazy", "--yes")).out.count(b"Other"), 4)
        await self.run_command("group", "skip", "nobody", "--yes", code=2)
        await self.run_command("group", "create", "unused")
        unused = await self.run_command("group", "skip", "unused", "--yes", code=2)
        self.assertIn("hasn't read any topic yet", unused.err)

    @asynchronous
    async def test_a_group_is_put_where_another_one_is(self):
        await self.fill_queues("Cloned")
        await self.run_command("consume", "Cloned", "-g", "old", "--from", "first", "-c", "7")
        await self.run_command("group", "create", "old", "--retries", "3")
        asked = []
        self.patch(click, "confirm", lambda text, **_: asked.append(text))
        shown = await self.run_command("group", "clone", "old", "new", "--json")
        self.assertEqual(asked, ["Put group new where old is?"])
        self.assertEqual(sum(each["offset"] for each in shown.lines[0]), 7)
        self.assertIn("none", shown.err)
        rest = await self.run_command("consume", "Cloned", "-g", "new", "--from", "first", "-e")
        self.assertEqual(len(rest.out.split()), 3)
        groups = await self.rig.new_cluster().admin().groups()
        self.assertEqual(groups["new"]["retryMaxTimes"], 3, "made with its settings")
        again = await self.run_command("group", "clone", "old", "new", "Cloned", "--yes", "--json")
        self.assertEqual(again.lines, shown.lines, "back where the other still is")
        for words, said in (
            (("old", "old"), "are the same group"),
            (("old", "new", "Else"), "hasn't read Else yet"),
            (("nobody", "new"), "group nobody: no broker knows it"),
        ):
            self.assertIn(said, (await self.run_command("group", "clone", *words, "--yes", code=2)).err)
        member = self.rig.new_cluster().consumer("new", {"Cloned": "*"})
        await member.start()
        refused = await self.run_command("group", "clone", "old", "new", "--yes", code=2)
        self.assertIn("group new has 1 member connected: stop them first", refused.err)

    @asynchronous
    async def test_how_far_groups_are_behind(self):
        self.assertEqual((await self.run_command("group", "lag")).out, b"no group is behind\n")
        await self.fill_queues("Lagging")
        await self.run_command("consume", "Lagging", "-g", "slow", "--from", "first", "-c", "4")
        (told,) = (await self.run_command("group", "lag", "--json")).lines[0]["groups"]
        self.assertEqual((told["group"], told["behind"], told["members"]), ("slow", 6, 0))
        shown = await self.run_command("group", "lag", "--most", "5", code=1)
        self.assertIn(b"slow", shown.out)
        await self.run_command("group", "lag", "slow", "--most", "6")
        nobody = await self.run_command("group", "lag", "nobody", code=2)
        self.assertIn("group nobody: no broker knows it", nobody.err)

    @asynchronous
    async def test_watching_a_lag_shows_rates_until_the_interrupt(self):
        await self.fill_queues("Lagging")
        await self.run_command("consume", "Lagging", "-g", "slow", "--from", "first", "-c", "4")
        self.patch(grouplag, "WATCH", 0.05)
        outcome = Outcome()
        watching = Deferred.fromCoroutine(
            self.run_command("group", "lag", "slow", "-w", "--json", outcome=outcome)
        )
        await self.rig.until(lambda: outcome.out.count(b"\n") > 1)
        outcome.interrupt.request()
        await watching
        first, second, *_ = (each["groups"][0]["topics"][0] for each in outcome.lines)
        self.assertIsNone(first["consumedPerSecond"])
        self.assertEqual((second["consumedPerSecond"], second["storedPerSecond"]), (0, 0))
        self.assertEqual((second["behind"], second["secondsToLevel"]), (6, None))

    @asynchronous
    async def test_looking_around(self):
        await self.run_command("produce", "Look", given=b"a\nb\n")
        await self.run_command("consume", "Look", "-g", "lookers", "--from", "first", "-c", "1")
        (broker,) = (await self.run_command("cluster", "list", "--json")).lines[0]
        self.assertEqual((broker["broker"], broker["id"]), ("broker-a", 0))
        self.assertIn("Look", (await self.run_command("topic", "list", "--json")).lines[0])
        queues = (await self.run_command("topic", "show", "Look", "--json")).lines[0]
        self.assertEqual(sum(queue["maxOffset"] for queue in queues), 2)
        self.assertIn(b"broker-a", (await self.run_command("topic", "show", "Look")).out)
        shown = (await self.run_command("group", "show", "lookers", "--json")).lines[0]
        self.assertEqual(sum(queue["lag"] for queue in shown["queues"] if queue["topic"] == "Look"), 1)
        self.assertIn(b"lookers", (await self.run_command("group", "list")).out)
        await self.run_command("group", "reset", "lookers", "Look", "first", "--yes")
        again = await self.run_command("consume", "Look", "-g", "lookers", "-c", "2")
        self.assertEqual(sorted(again.out.splitlines()), [b"a", b"b"])

    @asynchronous
    async def test_single_messages_are_found_by_id_and_place(self):
        lines = "".join(json.dumps({"body": f"m{n}", "keys": [f"k{n}"]}) + "\n" for n in range(3))
        given = ("produce", "Single", "--ndjson", "--json", "--order-key", "k")
        sent = (await self.run_command(*given, given=lines.encode())).lines
        second = next(each for each in sent if each["queueOffset"] == 1)
        place = f"Single/{second['queueId']}/1"
        for what in (second["offsetMessageId"], place):
            (found,) = (await self.run_command("msg", "get", what, "--json")).lines
            self.assertEqual(found["messageId"], second["messageId"])
            self.assertEqual((found["body"], found["keys"]), ("m1", ["k1"]))
        shown = (await self.run_command("msg", "get", place)).out.decode()
        self.assertIn(second["messageId"], shown)
        self.assertTrue(shown.endswith("\n\nm1\n"), shown)
        rows = shown.partition("\n\n")[0].splitlines()
        begin = rows[0].index("Single,")
        self.assertEqual({row[begin - 1] for row in rows}, {" "}, rows)
        self.assertNotIn(" ", {row[begin] for row in rows}, "values in one column")
        gone = await self.run_command("msg", "get", "Single/0/99", code=1)
        self.assertIn("no message Single/0/99", gone.err)
        await self.run_command("msg", "get", "k1", "-t", "Single", code=1)  # this rig's brokers have no index
        for of_a_producer in ("nonsense", "72D0C02520FE1F9D0000000000000001"):
            told = await self.run_command("msg", "get", of_a_producer, code=2)
            self.assertIn(
                f"{of_a_producer}: for a key, or an id that a producer made, name the topic by -t", told.err
            )
        self.assertIn(
            "did you mean Single?", (await self.run_command("msg", "get", "Singles/0/0", code=2)).err
        )
        nowhere = await self.run_command("msg", "get", "Nowhere/0/0", code=2)
        self.assertIn("hatwisted topic list shows what there is", nowhere.err)

    @asynchronous
    async def test_a_brokers_settings_and_figures(self):
        one = (await self.run_command("broker", "config", "get", "broker-a", "fileReserved*", "--json")).lines
        self.assertEqual(one, [{"fileReservedTime": "72"}])
        await self.run_command("broker", "config", "set", "broker-a", "fileReservedTime=48")
        got = await self.run_command("broker", "config", "get", "broker-a", "fileReservedTime")
        self.assertIn(b"48", got.out)
        answer = await self.run_command(
            "broker", "config", "set", "broker-a", "fileReservedTime=47", "--json"
        )
        self.assertEqual(answer.lines[0]["changed"], {"fileReservedTime": "47"})
        wrong = await self.run_command("broker", "config", "set", "broker-a", "fileReservedTime=soon", code=2)
        self.assertIn("fileReservedTime", wrong.err)
        await self.run_command("broker", "config", "set", "broker-a", "fileReservedTime", code=2)
        await self.run_command("broker", "config", "get", "broker-a", "noSuchKey", code=2)
        self.assertIn("known: broker-a", (await self.run_command("broker", "stats", "nobody", code=2)).err)
        figures = (await self.run_command("broker", "stats", "broker-a", "commitLog*", "--json")).lines[0]
        self.assertIn("commitLogMaxOffset", figures)
        typo = await self.run_command("broker", "stats", "broker-a", "putTpss", code=2)
        self.assertIn("did you mean putTps?", typo.err)

    @asynchronous
    async def test_a_group_without_its_master_is_not_one_of_its_slaves(self):
        info = ClusterInfo(
            broker_addr_table={
                "broker-a": BrokerData(
                    broker_name="broker-a", cluster="c", broker_addrs={1: "10.0.0.2:10911"}
                )
            }
        )

        async def cluster_info(_):
            return info

        self.patch(Admin, "cluster_info", cluster_info)
        for words in (("config", "set", "broker-a", "fileReservedTime=1"), ("stats", "broker-a")):
            refused = await self.run_command("broker", *words, code=2)
            self.assertIn("broker-a has no master now", refused.err)
            self.assertIn("10.0.0.2:10911", refused.err)

    @asynchronous
    async def test_a_group_that_is_not_written_to(self):
        await self.run_command("produce", "Routed", given=b"a\n")

        async def perm():
            return (await self.run_command("topic", "route", "Routed", "--json")).lines[0][0]["perm"]

        self.assertEqual(await perm(), 6)
        await self.run_command("broker", "writable", "broker-a", "off")
        self.assertEqual(await perm(), 4)
        again = await self.run_command("broker", "writable", "broker-a", "on", "--json")
        self.assertEqual(again.lines, [{"group": "broker-a", "writable": True}])
        self.assertEqual(await perm(), 6)
        self.assertIn(b"broker-a", (await self.run_command("topic", "route", "Routed")).out)
        await self.run_command("broker", "writable", "nobody", "off", code=2)

    @asynchronous
    async def test_while_a_master_is_gone_its_slave_is_asked(self):
        await self.rig.add_broker("slave", "broker-a", role="SLAVE")
        await self.run_command("produce", "Look", given=b"a\nb\n")
        await self.run_command("consume", "Look", "-g", "lookers", "--from", "first", "-c", "1")
        slave = self.rig.brokers["slave"]
        await self.rig.until(lambda: slave.parts.store.log.max_offset == self.master_end())
        slave.services.synchronizer.round_now()
        offsets = slave.parts.tables.offsets
        await self.rig.until(lambda: any(offsets.queues("lookers", "Look").values()))
        await self.run_command("cluster", "list")
        await self.rig.stop_broker("broker-a")
        shown = (await self.run_command("group", "show", "lookers", "--json")).lines[0]
        self.assertEqual(sum(queue["lag"] for queue in shown["queues"] if queue["topic"] == "Look"), 1)
        self.assertIn(b"lookers", (await self.run_command("group", "list")).out)
        refused = await self.run_command("group", "create", "crew", code=2)
        self.assertIn("know no master now", refused.err)
        self.assertEqual(len((await self.run_command("cluster", "list", "--json", code=1)).lines[0]), 1)
        await self.rig.stop_broker("slave")
        await self.run_command("cluster", "list", code=1)
        self.assertIn("know no broker now", (await self.run_command("group", "list", code=2)).err)

    @asynchronous
    async def test_mute_brokers_cost_one_timeout_together(self):
        """They hang up once the last one is asked: whoever asked one after the other would never get so far."""
        self.patch(admin, "ADMIN_TIMEOUT", 3600.0)
        asked = []

        class Mute(Protocol):
            def dataReceived(self, data):
                asked.append(self)
                if len(asked) == 4:
                    for each in asked:
                        each.transport.loseConnection()

        for number in range(4):
            port = loopback.listenTCP(0, Factory.forProtocol(Mute), interface="127.0.0.1")
            self.addCleanup(port.stopListening)
            address = f"127.0.0.1:{port.getHost().port}"
            member = Member("DefaultCluster", f"mute-{number}", 0, address)
            for _ in self.rig.names.routes.register(member, {}, DataVersion(), Source(number, address)):
                pass
        listed = (await self.run_command("cluster", "list", "--json", code=1)).lines[0]
        self.assertEqual(["error" in each for each in listed], [False, True, True, True, True])

    @asynchronous
    async def test_what_a_broker_remarks_on_a_change_is_told(self):
        await self.run_command("topic", "create", "T", "-q", "1")
        await self.run_command("produce", "T", given=b"one\n")

        def failing(queues, queue):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.patch(ConsumeQueueTable, "delete", failing)
        outcome = await self.run_command("topic", "delete", "T", "--yes")
        self.assertIn("queue 0 of T can't be deleted: [Errno 5]", outcome.err)

    @asynchronous
    async def test_what_isnt_named_stays_as_it_is_when_topics_and_groups_are_changed(self):
        async def topic():
            (route,) = (await self.run_command("topic", "route", "Made", "--json")).lines[0]
            return [route[name] for name in ("read", "write")]

        await self.run_command("topic", "create", "Made", "-q", "16")
        await self.run_command("topic", "create", "Made", "--perm", "4")
        self.assertEqual(await topic(), [16, 16])
        refused = await self.run_command("topic", "create", "Made", "-q", "17", code=2)
        self.assertIn(
            "topic Made is there, with permission 4 on broker-a: say which it shall have", refused.err
        )
        await self.run_command("topic", "create", "Made", "-q", "17", "--perm", "4")
        self.assertEqual(await topic(), [17, 17])

        async def group():
            found = (await self.run_command("group", "list", "--json")).lines[0]
            (crew,) = [each for each in found if each["groupName"] == "crew"]
            return [crew[name] for name in ("retryMaxTimes", "retryQueueNums", "consumeEnable")]

        await self.rig.new_cluster().admin().create_group("crew", retryQueueNums=4, consumeEnable=False)
        await self.run_command("group", "create", "crew", "--retries", "3")
        self.assertEqual(await group(), [3, 4, False])
        await self.run_command("group", "create", "crew", "--enabled")
        self.assertEqual(await group(), [3, 4, True])
        await self.run_command("group", "create", "crew", "--disabled")
        self.assertEqual(await group(), [3, 4, False])

    @asynchronous
    async def test_a_member_that_joins_while_it_is_asked_keeps_a_group_from_being_put_elsewhere(self):
        await self.fill_queues("Asked")
        await self.run_command("consume", "Asked", "-g", "old", "--from", "first", "-c", "7")
        joined = {}
        self.patch(Admin, "members", lambda admin, group: succeed(joined))
        self.patch(click, "confirm", lambda *_, **__: joined.update({"late@1": "127.0.0.1:4711"}))
        told = await self.run_command("group", "clone", "old", "new", code=2)
        self.assertIn("group new has 1 member connected: stop them first", told.err)
        offsets = self.rig.brokers["broker-a"].parts.tables.offsets
        self.assertEqual(offsets.queues("new", "Asked"), {})

    @asynchronous
    async def test_a_topic_of_one_cluster_is_removed_and_the_others_keep_theirs(self):
        await self.rig.add_broker("other", "broker-b", brokerClusterName="Second")
        await self.run_command("topic", "create", "Both", "-q", "2")
        await self.run_command("produce", "Both", given=b"x\n" * 40)
        held = {
            name: sum(self.rig.brokers[name].parts.store.queue_end("Both", number) for number in range(2))
            for name in self.rig.brokers
        }
        asked = []
        self.patch(click, "confirm", lambda text, **_: asked.append(text))
        gone = await self.run_command("topic", "delete", "Both", "-c", "Second", "--json")
        self.assertEqual(gone.lines, [[self.rig.brokers["other"].address]])
        self.assertIn(
            f"Topic Both has {counted(held['other'], 'message')} in 2 queues of cluster Second,", asked[0]
        )
        (left,) = (await self.run_command("topic", "show", "Both", "--json")).lines
        self.assertEqual([each["broker"] for each in left], ["broker-a"] * 2)
        got = await self.run_command("consume", "Both", "--from", "first", "-e")
        self.assertEqual(len(got.out.split()), held["broker-a"])

    def master_end(self):
        return self.rig.brokers["broker-a"].parts.store.log.max_offset

    @asynchronous
    async def test_making_and_removing(self):
        made = await self.run_command("topic", "create", "Made", "-q", "3", "--json")
        self.assertEqual(made.lines, [[self.rig.brokers["broker-a"].address]])
        self.assertEqual(len((await self.run_command("topic", "show", "Made", "--json")).lines[0]), 3)
        await self.run_command("produce", "Made", given=b"x\ny\n")
        asked = []
        self.patch(click, "confirm", lambda text, **_: asked.append(text))
        await self.run_command("topic", "delete", "Made")
        await self.run_command("topic", "show", "Made", code=2)
        await self.run_command("group", "create", "crew", "--retries", "3")
        (crew,) = [
            each
            for each in (await self.run_command("group", "list", "--json")).lines[0]
            if each["groupName"] == "crew"
        ]
        self.assertEqual(crew["retryMaxTimes"], 3)
        await self.run_command("group", "delete", "crew")
        self.assertIn("Topic Made has 2 messages in 3 queues", asked[0])
        self.assertIn("Group crew (0 members connected) loses its progress in no topic", asked[1])


class TestCommandsWithAccounts(CommandsCase):
    def setUp(self):
        accounts = self.mktemp()
        with open(accounts, "w") as file:
            file.write("accounts: []\n")
        self.settings = {"aclEnable": True, "aclPlainFile": accounts}
        return super().setUp()

    @asynchronous
    async def test_a_group_that_may_not_consume_is_told_at_once(self):
        for words in ((), ("-g", "g"), ("--peek",)):
            refused = await self.run_command("consume", "SELF_TEST_TOPIC", *words, code=2)
            self.assertEqual(refused.err.count("\n"), 1, refused.err)
            self.assertIn("No accessKey is configured; name an account's file by --credentials", refused.err)
