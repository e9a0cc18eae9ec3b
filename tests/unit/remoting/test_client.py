"""The remoting client against real servers on loopback."""

from twisted.internet import defer, task
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from hatwisted.clientcore.calls import MAX_CALLS, SILENT_CALLS, Channel, ChannelTable
from hatwisted.clientcore.errors import CallTimedOut, ConnectFailed, ConnectionGone, Refused, TooManyCalls
from hatwisted.clientcore.tasks import Waiter
from hatwisted.remoting.client import RemotingClient, channel_table
from hatwisted.remoting.deferreds import fired
from hatwisted.remoting.portoptions import IDLE_LIMIT
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.remoting.twistedlog import TwistedLog
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.hostport import host_and_port
from hatwisted.wire.remoting import RemotingCommand, encode_command
from tests.support.loopback import loopback

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


class ClientCase(TestCase):
    """A client, and verbs that start servers."""

    def setUp(self):
        self.clock = task.Clock()
        self.client = RemotingClient(loopback, self.clock)
        self.addCleanup(self.client.close)
        self.channels = channel_table(loopback, self.clock, TwistedLog("tests"))
        self.addCleanup(lambda: fired(self.channels.close()))
        self.seen = []

    def serve(self, handler, code=ROUTE, port=0):
        table = ProcessorTable()
        table.register(code, handler)
        self.factory = RemotingServerFactory(table, self.clock)
        return self.listen(self.factory, port)

    def listen(self, factory, port=0):
        self.port = loopback.listenTCP(port, factory, interface="127.0.0.1")
        self.addCleanup(self.hang_up)
        return f"127.0.0.1:{self.port.getHost().port}"

    def hang_up(self):
        for connection in list(getattr(self.port.factory, "connections", ())):
            connection.abort()
        return self.port.stopListening()

    def echo(self, connection, request):
        self.seen.append((connection, request))
        return response(request, body=request.body)

    def answer_with(self, on_request, lost=lambda address: None):
        """What servers ask on `channels` is answered so."""
        self.channels.serve(lambda _, request: on_request(request), lost)

    def ask_by_channels(self, address):
        """A call that servers can ask back on."""
        return fired(self.channels.call(address, RemotingCommand(ROUTE), 5))

    def until(self, happened):
        """Let the reactor turn until `happened()`; the test's own timeout bounds it."""
        loop = task.LoopingCall(lambda: happened() and loop.stop())
        return loop.start(0.002)


class SlowTurns(task.Clock):
    """As of a reactor each of whose turns takes a millisecond."""

    def callLater(self, when, *call, **named):
        return super().callLater(max(when, 0.001), *call, **named)


class TestCalls(ClientCase):
    @defer.inlineCallbacks
    def test_answers_come_back_to_their_calls(self):
        address = self.serve(self.echo)
        calls = [self.client.call(address, RemotingCommand(ROUTE, body=b"%d" % n), 5) for n in range(20)]
        answers = yield defer.gatherResults(calls)
        self.assertEqual([answer.body for answer in answers], [b"%d" % n for n in range(20)])

    @defer.inlineCallbacks
    def test_one_lasting_connection_per_address(self):
        address = self.serve(self.echo)
        for _ in range(3):
            yield self.client.call(address, RemotingCommand(ROUTE), 5)
        self.assertEqual(len({id(connection) for connection, _ in self.seen}), 1)

    @defer.inlineCallbacks
    def test_answers_in_any_order(self):
        parked = []
        address = self.serve(lambda _, request: parked.append((request, defer.Deferred())) or parked[-1][1])
        first = self.client.call(address, RemotingCommand(ROUTE, body=b"1"), 5)
        second = self.client.call(address, RemotingCommand(ROUTE, body=b"2"), 5)
        yield self.until(lambda: len(parked) == 2)
        for request, answer in reversed(parked):
            answer.callback(response(request, body=request.body))
        self.assertEqual((yield second).body, b"2")
        self.assertEqual((yield first).body, b"1")

    @defer.inlineCallbacks
    def test_the_answer_to_a_large_batch(self):
        ids = ",".join(["0" * 56] * 7900)
        address = self.serve(lambda _, request: response(request, ext={"msgId": ids}))
        answer = yield self.client.call(address, RemotingCommand(ROUTE), 5)
        self.assertEqual(answer.ext["msgId"], ids)

    @defer.inlineCallbacks
    def test_ask_fails_on_any_other_code(self):
        address = self.serve(lambda _, request: response(request, ResponseCode.TOPIC_NOT_EXIST, "no T"))
        error = yield self.assertFailure(self.client.ask(address, RemotingCommand(ROUTE), 5), Refused)
        self.assertEqual(error.code, 17)
        self.assertIn(address, str(error))
        self.assertIn("no T", str(error))

    @defer.inlineCallbacks
    def test_oneway_is_flagged_and_not_awaited(self):
        address = self.serve(self.echo)
        self.client.oneway(address, RemotingCommand(ROUTE, body=b"x"))
        yield self.until(lambda: self.seen)
        self.assertTrue(self.seen[0][1].is_oneway)

    @defer.inlineCallbacks
    def test_requests_from_the_server_are_refused_unless_oneway(self):
        address = self.serve(self.echo)
        yield self.client.call(address, RemotingCommand(ROUTE), 5)
        connection = self.seen[0][0]
        answers = []
        connection._run_one = lambda table, command: answers.append(command)
        connection.send(encode_command(RemotingCommand(905, opaque=70, flag=2)))
        connection.send(encode_command(RemotingCommand(39, opaque=71)))
        yield self.until(lambda: answers)
        self.assertEqual([(a.opaque, a.code, a.is_response) for a in answers], [(71, 3, True)])

    @defer.inlineCallbacks
    def test_answers_to_the_server_may_come_later_or_fail(self):
        address = self.serve(self.echo)
        yield self.ask_by_channels(address)
        connection, answers, asked, waiting = self.seen[0][0], [], [], {70: Waiter(), 71: Waiter()}
        connection._run_one = lambda table, command: answers.append(command)
        self.answer_with(lambda request: asked.append(request) or waiting[request.opaque])
        for opaque in waiting:
            connection.send(encode_command(RemotingCommand(307, opaque=opaque)))
        yield self.until(lambda: len(asked) == 2)
        waiting[71].fire(RemotingCommand(0, body=b"late"))
        waiting[70].fail(ValueError("no idea"))
        yield self.until(lambda: len(answers) == 2)
        self.assertEqual([(a.opaque, a.code, a.body) for a in answers], [(71, 0, b"late"), (70, 1, b"")])
        self.assertIn("no idea", answers[1].remark)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    @defer.inlineCallbacks
    def test_a_question_that_breaks_its_answerer_costs_no_connection(self):
        address = self.serve(self.echo)
        yield self.ask_by_channels(address)
        connection, answers = self.seen[0][0], []
        connection._run_one = lambda table, command: answers.append(command)
        self.answer_with(lambda request: {}[request.code])
        connection.send(encode_command(RemotingCommand(307, opaque=70)))
        yield self.until(lambda: answers)
        self.assertEqual((answers[0].opaque, answers[0].code), (70, 1))
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)
        self.assertEqual(len(self.factory.connections), 1)

    @defer.inlineCallbacks
    def test_an_answer_is_for_the_connection_that_asked(self):
        address = self.serve(self.echo)
        yield self.ask_by_channels(address)
        waiting, lost = [], []
        self.answer_with(lambda _: waiting.append(Waiter()) or waiting[-1], lost.append)
        self.seen[0][0].send(encode_command(RemotingCommand(307, opaque=70)))
        yield self.until(lambda: waiting)
        self.seen[0][0].abort()
        yield self.until(lambda: lost)
        yield self.ask_by_channels(address)
        answers = []
        self.seen[-1][0]._run_one = lambda table, command: answers.append(command)
        waiting[0].fire(RemotingCommand(0))
        self.channels.oneway(address, RemotingCommand(ROUTE, body=b"behind it"))
        yield self.until(lambda: answers or len(self.seen) == 3)
        self.assertEqual([each.body for each in answers], [b"behind it"])

    def test_bad_address_is_named(self):
        error = self.failureResultOf(self.client.call("nowhere", RemotingCommand(ROUTE), 1), ValueError)
        self.assertIn("'nowhere'", error.getErrorMessage())
        self.assertEqual(host_and_port("[fd00::1]:9876"), ("fd00::1", 9876))
        self.assertEqual(host_and_port("host.example:10912"), ("host.example", 10912))
        for text in ("h", "h:", ":1", "h:0", "h:65536", "h:x", ""):
            self.assertRaises(ValueError, host_and_port, text)


class TestFailures(ClientCase):
    @defer.inlineCallbacks
    def test_refused_connection_fails_the_call_and_the_next_call_dials_again(self):
        number = loopback.network.free_port()
        address = self.serve(self.echo, port=number)
        yield self.hang_up()
        error = yield self.assertFailure(self.client.call(address, RemotingCommand(ROUTE), 5), ConnectFailed)
        self.assertIn(address, str(error))
        self.listen(self.factory, number)
        answer = yield self.client.call(address, RemotingCommand(ROUTE, body=b"back"), 5)
        self.assertEqual(answer.body, b"back")

    @defer.inlineCallbacks
    def test_timeout_leaves_the_connection_usable(self):
        address = self.serve(
            lambda _, request: defer.Deferred() if request.body == b"never" else response(request)
        )
        slow = self.client.call(address, RemotingCommand(ROUTE, body=b"never"), 3)
        yield self.client.call(address, RemotingCommand(ROUTE), 5)
        self.clock.advance(2.999)
        self.assertNoResult(slow)
        self.clock.advance(0.001)
        self.failureResultOf(slow, CallTimedOut)
        yield self.client.call(address, RemotingCommand(ROUTE), 5)
        self.assertEqual(len(self.factory.connections), 1)

    def test_other_answers_put_a_timeout_off_by_no_more_than_the_grace(self):
        clock = SlowTurns()
        table = ChannelTable(clock.callLater, lambda channel, host, port: channel.close, TwistedLog("tests"))
        channel = Channel(table, "a:1")
        waiting = fired(channel.call(RemotingCommand(ROUTE), 3))
        chatter = task.LoopingCall(channel.received, b"")
        chatter.clock = clock
        chatter.start(0.001)
        clock.pump([0.001] * 3400)
        self.assertNoResult(waiting)
        clock.pump([0.001] * 200)
        self.failureResultOf(waiting, CallTimedOut)
        chatter.stop()

    @defer.inlineCallbacks
    def test_a_request_that_cannot_be_encoded_is_no_silence_of_the_server(self):
        address = self.serve(self.echo)
        yield self.client.call(address, RemotingCommand(ROUTE), 5)
        for _ in range(SILENT_CALLS):
            bad = RemotingCommand(ROUTE, ext={"topic": "\ud800"})
            self.assertRaises(ValueError, self.client.call, address, bad, 5)
        self.clock.pump([5, 0, 5])
        yield self.client.call(address, RemotingCommand(ROUTE), 5)
        first, second = (connection for connection, _ in self.seen)
        self.assertIs(first, second)

    @defer.inlineCallbacks
    def test_silent_peer_is_dropped_after_two_timeouts_and_dialled_again(self):
        silent = [True]
        lost = []
        self.client.on_lost(lost.append)
        address = self.serve(lambda _, request: defer.Deferred() if silent[0] else response(request))
        for _ in range(2):
            slow = self.client.call(address, RemotingCommand(ROUTE), 3)
            yield self.until(lambda: self.factory.connections)
            self.clock.advance(3)
            self.failureResultOf(slow, CallTimedOut)
        yield self.until(lambda: lost)
        self.assertEqual(lost, [address])
        silent[0] = False
        yield self.client.call(address, RemotingCommand(ROUTE), 5)

    def test_timeout_covers_dialling(self):
        call = self.client.call("127.0.0.1:1", RemotingCommand(ROUTE), 3)
        call.addErrback(lambda failure: failure.trap(CallTimedOut, ConnectFailed))
        self.clock.advance(3)
        self.successResultOf(call)

    @defer.inlineCallbacks
    def test_lost_connection_fails_what_was_under_way(self):
        address = self.serve(lambda connection, _: connection.abort() or defer.Deferred())
        error = yield self.assertFailure(self.client.call(address, RemotingCommand(ROUTE), 5), ConnectionGone)
        self.assertIn(address, str(error))
        scans = [call for call in self.clock.getDelayedCalls() if call.getTime() == IDLE_LIMIT]
        self.assertEqual(self.clock.getDelayedCalls(), scans)
        self.assertEqual(len(scans), 1)

    @defer.inlineCallbacks
    def test_peer_that_does_not_speak_remoting_is_dropped(self):
        class Http(Protocol):
            def connectionMade(self):
                self.transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        address = self.listen(Factory.forProtocol(Http))
        yield self.assertFailure(self.client.call(address, RemotingCommand(ROUTE), 5), ConnectionGone)

    @defer.inlineCallbacks
    def test_calls_under_way_are_bounded(self):
        address = self.serve(lambda _, request: defer.Deferred())
        calls = [self.client.call(address, RemotingCommand(ROUTE), 5) for _ in range(MAX_CALLS)]
        self.failureResultOf(self.client.call(address, RemotingCommand(ROUTE), 5), TooManyCalls)
        yield self.client.close()
        for call in calls:
            self.failureResultOf(call, ConnectionGone)

    @defer.inlineCallbacks
    def test_cancelling_gives_the_answer_up(self):
        address = self.serve(self.echo)
        call = self.client.call(address, RemotingCommand(ROUTE, body=b"a"), 5)
        call.cancel()
        self.failureResultOf(call, defer.CancelledError)
        answer = yield self.client.call(address, RemotingCommand(ROUTE, body=b"b"), 5)
        self.assertEqual(answer.body, b"b")

    @defer.inlineCallbacks
    def test_closed_client_says_so(self):
        address = self.serve(self.echo)
        yield self.client.call(address, RemotingCommand(ROUTE), 5)
        yield self.client.close()
        yield self.until(lambda: not self.factory.connections)
        self.failureResultOf(self.client.call(address, RemotingCommand(ROUTE), 5), ConnectFailed)
