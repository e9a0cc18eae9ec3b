"""Requests from the broker to its clients, over connections in memory."""

from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.consumer import clientcalls
from hatwisted.broker.consumer.clientcalls import CALL_TIMEOUT, ClientCalls
from hatwisted.clientcore.errors import CallTimedOut, ConnectionGone, TooManyCalls
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.broker.rig import BrokerRig, GroupMember


class TestCalls(TestCase):
    @inlineCallbacks
    def setUp(self):
        self.rig = BrokerRig(self)
        self.calls = ClientCalls(self.rig.clock)
        self.client = yield GroupMember.connected(self.rig)
        (self.connection,) = self.rig.factory.connections

    def call(self, code=307, **more):
        return self.calls.call(self.connection, RemotingCommand(code, **more))

    @inlineCallbacks
    def test_answers_are_paired_by_opaque_in_any_order(self):
        first, second = self.call(ext={"n": "1"}), self.call(ext={"n": "2"})
        requests = yield self.client.asked(2)
        self.assertEqual(
            [(request.code, request.flag, request.ext["n"]) for request in requests],
            [(307, 0, "1"), (307, 0, "2")],
        )
        self.client.answer(requests[1], body=b"two")
        self.client.answer(requests[0], code=1, remark="one")
        self.assertEqual((yield second).body, b"two")
        answer = yield first
        self.assertEqual((answer.code, answer.remark), (1, "one"))
        self.assertEqual(self.calls.count, 0)

    @inlineCallbacks
    def test_both_directions_may_use_the_same_opaque(self):
        call = self.call()
        (request,) = yield self.client.asked()
        self.client.send(RemotingCommand(28, opaque=request.opaque))
        answer = yield self.client.answer_to(request.opaque)
        self.assertEqual(answer.code, 0)
        self.assertFalse(call.called)
        self.client.answer(request)
        yield call

    @inlineCallbacks
    def test_silent_client_times_out_and_its_late_answer_harms_nobody(self):
        call = self.call()
        (request,) = yield self.client.asked()
        self.rig.clock.advance(CALL_TIMEOUT - 0.001)
        self.assertFalse(call.called)
        self.rig.clock.advance(0.001)
        yield self.assertFailure(call, CallTimedOut)
        self.client.answer(request)
        self.client.answer(RemotingCommand(307, opaque=4711))
        again = self.call()
        self.client.answer((yield self.client.asked(2))[1])
        yield again

    @inlineCallbacks
    def test_closed_connection_fails_its_calls(self):
        calls = [self.call(), self.call()]
        yield self.client.asked(2)
        self.client.transport.loseConnection()
        for call in calls:
            yield self.assertFailure(call, ConnectionGone)
        yield self.assertFailure(self.call(), ConnectionGone)
        self.assertEqual((self.calls.count, self.calls._pending), (0, {}))

    @inlineCallbacks
    def test_calls_under_way_are_bounded_by_client_and_in_all(self):
        self.patch(clientcalls, "MAX_CALLS_PER_CLIENT", 2)
        first, given_up = self.call(), self.call()
        yield self.assertFailure(self.call(), TooManyCalls)
        given_up.cancel()
        yield self.assertFailure(given_up, CancelledError)
        second = self.call()
        self.patch(clientcalls, "MAX_CALLS", 2)
        self.patch(clientcalls, "MAX_CALLS_PER_CLIENT", 9)
        yield self.assertFailure(self.call(), TooManyCalls)
        self.client.transport.loseConnection()
        yield self.assertFailure(first, ConnectionGone)
        yield self.assertFailure(second, ConnectionGone)

    @inlineCallbacks
    def test_client_that_reads_nothing_is_asked_nothing(self):
        self.connection.pauseProducing()
        yield self.assertFailure(self.call(), TooManyCalls)
        self.connection.resumeProducing()
        call = self.call()
        (request,) = yield self.client.asked()
        self.client.answer(request)
        yield call

    @inlineCallbacks
    def test_B177_client_that_reads_nothing_is_sent_nothing_oneway_either(self):
        self.connection.pauseProducing()
        self.calls.oneway(self.connection, RemotingCommand(220, body=b"unread"))
        self.connection.resumeProducing()
        self.calls.oneway(self.connection, RemotingCommand(220, body=b"{}"))
        requests = yield self.client.asked()
        self.assertEqual([request.body for request in requests], [b"{}"])

    @inlineCallbacks
    def test_oneway_wants_no_answer(self):
        self.calls.oneway(self.connection, RemotingCommand(220, body=b"{}"))
        (request,) = yield self.client.asked()
        self.assertEqual((request.code, request.flag, request.body), (220, 2, b"{}"))
