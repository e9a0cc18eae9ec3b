"""`hatwisted produce|consume|topic|group|cluster` as real processes against a cluster in this one."""

import json
import os
import signal
import sys

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.trial.unittest import TestCase

from hatwisted.client.message import Message
from tests.client.rig import ClusterRig, asynchronous

PROGRAM = "from hatwisted.cli.main import main; main(prog_name='hatwisted')"


class Command(ProcessProtocol):
    """One run; `ended` fires with its exit code."""

    def __init__(self, given):
        self.given, self.out, self.err, self.ended = given, b"", b"", Deferred()

    def connectionMade(self):
        if self.given is not None:
            self.transport.write(self.given)
            self.transport.closeStdin()

    def outReceived(self, data):
        self.out += data

    def errReceived(self, data):
        self.err += data

    def processEnded(self, reason):
        self.ended.callback(reason.value.exitCode)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


class TestCommands(TestCase):
    timeout = 55

    def setUp(self):
        self.rig = ClusterRig(self)
        return self.rig.start()

    def spawn(self, *arguments, given=None, namesrv=None):
        command = Command(given)
        env = os.environ | {"NAMESRV_ADDR": namesrv or self.rig.names.address}
        reactor.spawnProcess(command, sys.executable, [sys.executable, "-c", PROGRAM, *arguments], env)
        return command

    async def run_command(self, *arguments, code=0, **more):
        command = self.spawn(*arguments, **more)
        found = await command.ended
        self.assertEqual(found, code, command.err.decode())
        self.assertNotIn(b"Traceback", command.err)
        return command

    @asynchronous
    async def test_lines_in_and_lines_out(self):
        given = b"".join(b"line %d\n" % number for number in range(300)) + b"no end"
        sent = await self.run_command("produce", "Lines", given=given)
        self.assertIn(b"301 stored, 0 failed", sent.err)
        got = await self.run_command("consume", "Lines", "--from", "first", "-c", "301")
        self.assertEqual(sorted(got.out.splitlines()), sorted(given.splitlines()))
        short = await self.run_command("consume", "Lines", "-c", "1", "--idle", "0.5", code=1)
        self.assertEqual(short.out, b"")

    @asynchronous
    async def test_ndjson_in_and_out_and_bad_lines_are_named(self):
        lines = [
            {"body": "a", "tags": "red", "keys": ["k1", "k2"], "properties": {"p": "1"}},
            {"body64": "/w=="},
        ]
        given = "".join(json.dumps(line) + "\n" for line in lines) + '{"bodi": "x"}\nnonsense\n'
        sent = await self.run_command("produce", "Ndjson", "--ndjson", "--json", given=given.encode(), code=1)
        self.assertEqual(len(sent.lines), 2)
        self.assertIn(b"line 3:", sent.err)
        self.assertIn(b"line 4:", sent.err)
        got = await self.run_command("consume", "Ndjson", "--json", "--from", "first", "-c", "2")
        first, second = sorted(got.lines, key=lambda line: "body" not in line)
        self.assertEqual((first["body"], first["tags"], first["keys"]), ("a", "red", ["k1", "k2"]))
        self.assertEqual((first["properties"]["p"], second["body64"]), ("1", "/w=="))
        self.assertEqual(
            {line["messageId"] for line in sent.lines}, {line["messageId"] for line in got.lines}
        )

    @asynchronous
    async def test_interrupted_a_consumer_commits_and_ends_in_order(self):
        producer = self.rig.new_cluster().producer("p")
        for number in range(5):
            await producer.send(Message(topic="Int", body=b"%d" % number))
        command = self.spawn("consume", "Int", "--from", "first")
        await self.rig.until(lambda: command.out.count(b"\n") == 5)
        command.transport.signalProcess(signal.SIGINT)
        self.assertEqual(await command.ended, 0)
        self.assertEqual(command.err, b"")
        standings = await self.rig.new_cluster().admin().progress("hatwisted-cli")
        self.assertEqual(sum(each.consumed for each in standings if each.queue.topic == "Int"), 5)

    @asynchronous
    async def test_a_producer_waiting_for_a_terminal_can_be_interrupted(self):
        await self.run_command("produce", "Wait", given=b"a\n")
        command = self.spawn("produce", "Wait")
        command.transport.write(b"one\n")
        offsets = self.rig.brokers["broker-a"].store
        end = offsets.log.max_offset
        await self.rig.until(lambda: offsets.log.max_offset > end)
        command.transport.signalProcess(signal.SIGINT)
        self.assertEqual(await command.ended, 130)
        self.assertIn(b"1 stored", command.err)

    @asynchronous
    async def test_no_cluster_is_one_line_and_exit_code_2(self):
        for arguments in (("topic", "list"), ("produce", "T"), ("consume", "T"), ("cluster", "list")):
            command = await self.run_command(*arguments, namesrv="127.0.0.1:1", given=b"", code=2)
            self.assertEqual(command.err.count(b"\n"), 1, command.err)
            self.assertIn(b"127.0.0.1:1", command.err)
        unknown = await self.run_command("consume", "Nowhere", code=2)
        self.assertIn(b"Nowhere", unknown.err)

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
        await self.run_command("group", "reset", "lookers", "Look", "first")
        again = await self.run_command("consume", "Look", "-g", "lookers", "-c", "2")
        self.assertEqual(sorted(again.out.splitlines()), [b"a", b"b"])
