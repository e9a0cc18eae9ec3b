"""One command on a cluster, without a reactor of its own: how it ends, what signals do, how its input is read."""

import os
import signal
import tempfile
from types import SimpleNamespace

import click
import twisted.internet
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.cluster import clusterrun
from hatwisted.cli.cluster.clusterrun import (
    InputLines,
    Interrupt,
    cluster_options,
    run,
    run_reactor,
)
from hatwisted.cli.errors import EXIT_INTERRUPTED, CannotRun
from hatwisted.clientcore.errors import ConnectFailed, NoNameServer


class FakeReactor(Clock):
    """Runs until it's stopped; what comes from threads is done at once."""

    def __init__(self):
        super().__init__()
        self.running = True
        self._begin = []
        self.turns = []
        """What happens while it runs, one in each turn."""

    def callWhenRunning(self, work):
        self._begin.append(work)

    def callFromThread(self, work, *arguments):
        work(*arguments)

    def run(self, installSignalHandlers):
        assert not installSignalHandlers, "signals are the command's"
        for work in self._begin:
            work()
        while self.running and self.turns:
            self.turns.pop(0)()

    def stop(self):
        assert self.running, "it can be stopped once"
        self.running = False


class FakeCluster:
    def __init__(self, reactor, namesrv, *, credentials, tls):
        if namesrv == "wrong":
            raise ValueError("'wrong' isn't host:port")
        self.namesrv = namesrv
        self.closed = False

    def close(self):
        self.closed = True
        return succeed(None)


@click.command()
@cluster_options
def command(namesrv):
    """Any."""


class RunTests(SynchronousTestCase):
    def setUp(self):
        self.reactor = FakeReactor()
        self.clusters = []
        self.patch(twisted.internet, "reactor", self.reactor)
        self.patch(clusterrun, "Cluster", self.cluster)
        self.context = command.make_context("any", [])

    def cluster(self, *words, **named):
        self.clusters.append(FakeCluster(*words, **named))
        return self.clusters[-1]

    def run_work(self, work, namesrv="h:1"):
        with self.context.scope(cleanup=False):
            return run_reactor(namesrv, work)

    def test_its_result_is_the_exit_code_and_the_cluster_is_closed(self):
        for result, code in ((None, 0), (1, 1)):
            self.setUp()

            async def work(cluster, interrupt, result=result):
                self.assertEqual(cluster.namesrv, "h:1")
                return result

            self.assertEqual(self.run_work(work), code)
            self.assertTrue(self.clusters[0].closed)
            self.assertFalse(self.reactor.running)

    def test_an_error_of_the_cluster_is_one_line(self):
        async def work(cluster, interrupt):
            raise ConnectFailed("h:1", "gone\n  away")

        error = self.assertRaises(CannotRun, self.run_work, work)
        self.assertNotIn("\n", str(error))
        self.assertIn("gone away", str(error))
        self.assertTrue(self.clusters[0].closed)

    def test_a_mistake_of_ours_keeps_its_traceback(self):
        async def work(cluster, interrupt):
            raise KeyError("ours")

        self.assertRaises(KeyError, self.run_work, work)

    def test_advice_on_what_brokers_say_of_accounts_and_filters(self):
        for said, advice in (
            ("AclException: No acl config for x", "the brokers' ACL files have no such account"),
            ("the broker does not support SQL92", "set enablePropertyFilter=true"),
        ):

            async def work(cluster, interrupt, said=said):
                raise ConnectFailed("h:1", said)

            self.setUp()
            self.assertIn(advice, str(self.assertRaises(CannotRun, self.run_work, work)))

    def test_where_no_name_server_answers_it_says_how_to_name_one(self):
        async def work(cluster, interrupt):
            raise NoNameServer("no name server answered: h:1: gone.")

        for words, advice in (
            ([], "-n HOST or NAMESRV_ADDR"),
            (["-n", "h"], "is its port open to this host?"),
        ):
            self.setUp()
            self.context = command.make_context("any", words)
            self.assertIn(advice, str(self.assertRaises(CannotRun, self.run_work, work)))

    def test_a_wrong_address_is_the_users(self):
        error = self.assertRaises(CannotRun, self.run_work, None, "wrong")
        self.assertEqual(str(error), "'wrong' isn't host:port")

    def test_the_first_signal_asks_and_the_second_ends(self):
        before = signal.getsignal(signal.SIGINT)
        seen = []

        async def work(cluster, interrupt):
            interrupt.on_request(lambda: seen.append("asked"))
            await Deferred()

        self.reactor.turns = [
            lambda: signal.raise_signal(signal.SIGINT),
            lambda: seen.append("goes on"),
            lambda: signal.raise_signal(signal.SIGTERM),
            lambda: seen.append("after its end"),
        ]
        self.assertEqual(self.run_work(work), EXIT_INTERRUPTED)
        self.assertEqual(seen, ["asked", "goes on"])
        self.assertIs(signal.getsignal(signal.SIGINT), before)

    def test_signals_after_the_end_change_nothing(self):
        async def work(cluster, interrupt):
            await Deferred()

        self.reactor.turns = [lambda: [signal.raise_signal(signal.SIGINT) for _ in range(4)]]
        self.assertEqual(self.run_work(work), EXIT_INTERRUPTED)

    def test_work_that_ends_in_order_when_asked_has_its_own_code(self):
        async def work(cluster, interrupt):
            asked = Deferred()
            interrupt.on_request(lambda: asked.callback(None))
            await asked
            return 7

        self.reactor.turns = [lambda: signal.raise_signal(signal.SIGTERM)]
        self.assertEqual(self.run_work(work), 7)

    def test_a_reactor_that_somebody_else_stops_is_an_interrupt(self):
        async def work(cluster, interrupt):
            await Deferred()

        self.assertEqual(self.run_work(work), EXIT_INTERRUPTED)

    def test_a_program_with_a_reactor_of_its_own_runs_the_work_itself(self):
        async def work(cluster, interrupt):
            return (cluster, interrupt)

        self.context.obj = lambda namesrv, given: (namesrv, given("cluster", "interrupt"))
        with self.context.scope(cleanup=False):
            name_servers, running = run("h:1", work)
        self.assertEqual(name_servers, "h:1")
        self.assertEqual(self.successResultOf(ensureDeferred(running)), ("cluster", "interrupt"))


class NameServerTests(SynchronousTestCase):
    def given(self, text):
        return command.make_context("any", ["-n", text]).params["namesrv"]

    def test_a_port_may_be_left_out(self):
        self.assertEqual(self.given("a; b:1,c"), "a:9876;b:1;c:9876")
        self.assertEqual(self.given("[::1];[::2]:5"), "[::1]:9876;[::2]:5")


class InterruptTests(SynchronousTestCase):
    def test_it_is_requested_once(self):
        interrupt, heard = Interrupt(), []
        interrupt.on_request(lambda: heard.append(1))
        interrupt.request()
        interrupt.request()
        self.assertEqual((heard, interrupt.requested), ([1], True))


class InlineThread:
    """Does its work as soon as it's started."""

    def __init__(self, target, args, daemon):
        assert daemon, "a terminal at which nobody types would keep the process"
        self.start = lambda: target(*args)


class InputTests(SynchronousTestCase):
    def setUp(self):
        self.patch(clusterrun.threading, "Thread", InlineThread)
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.addCleanup(self.file.close)
        self.patch(clusterrun.sys, "stdin", self.file)
        self.lines = InputLines(FakeReactor())

    def chunk(self):
        return self.successResultOf(Deferred.fromCoroutine(self.lines.chunk()))

    def all_of(self, data):
        self.file.write(data)
        self.file.seek(0)
        found = []
        while (lines := self.chunk()) is not None:
            found.append(lines)
        return found

    def test_lines_wherever_the_reads_cut_them(self):
        for size in range(1, 20):
            self.patch(clusterrun, "CHUNK", size)
            self.setUp()
            found = self.all_of(b"one\r\ntwo\n\nno end")
            self.assertEqual(sum(found, []), [b"one", b"two", b"", b"no end"], size)
            self.assertNotIn([], found, size)

    def test_a_line_that_is_too_long_is_skipped_and_not_kept(self):
        self.patch(clusterrun, "LONGEST_LINE", 10)
        for size in range(1, 40):
            self.patch(clusterrun, "CHUNK", size)
            self.setUp()
            found = sum(self.all_of(b"0123456789\n%s\nend\n%s" % (b"x" * 90, b"y" * 90)), [])
            self.assertEqual(found[:1] + found[2:3], [b"0123456789", b"end"], size)
            if size < 30:
                self.assertEqual(found[1::2], [None, None], size)
            self.assertEqual(self.lines._rest, [])

    def test_a_closed_input_is_one_line(self):
        self.patch(clusterrun.sys, "stdin", None)
        self.assertIn(
            "standard input is closed", str(self.assertRaises(CannotRun, InputLines, FakeReactor()))
        )

    def test_no_more_is_read_than_is_asked_for(self):
        self.patch(clusterrun, "CHUNK", 4)
        self.file.write(b"a\nb\n" * 10)
        self.file.flush()
        self.file.seek(0)
        self.chunk()
        self.assertEqual(os.lseek(self.file.fileno(), 0, os.SEEK_CUR), 4)

    def test_nothing(self):
        self.assertEqual(self.all_of(b""), [])

    def test_an_input_that_cant_be_read_is_one_line(self):
        self.patch(clusterrun.sys, "stdin", SimpleNamespace(fileno=lambda: -1))
        lines = InputLines(FakeReactor())
        failure = self.failureResultOf(Deferred.fromCoroutine(lines.chunk()), CannotRun)
        self.assertEqual(str(failure.value), "standard input: Bad file descriptor")

    def test_what_comes_after_the_end_is_nobodys(self):
        class LateReactor(FakeReactor):
            def callFromThread(self, work, *arguments):
                self.callLater(1, work, *arguments)

        reactor = LateReactor()
        self.file.write(b"late\n")
        self.file.seek(0)
        waiting = InputLines(reactor)._read()
        waiting.addErrback(lambda _: None)
        waiting.cancel()
        reactor.advance(1)
        self.assertIsNone(self.successResultOf(waiting))
