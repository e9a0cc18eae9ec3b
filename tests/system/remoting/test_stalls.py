"""A process that stood still reads its sockets before it gives calls up."""

from __future__ import annotations

import time

from twisted.internet import defer, reactor
from twisted.trial.unittest import TestCase

from hatwisted.clientcore import calls as calls_module
from hatwisted.clientcore.errors import CallTimedOut
from hatwisted.remoting.client import RemotingClient
from hatwisted.remoting.tcp import TcpConnecting
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scriptedgroup import SILENCE, ScriptedServer
from tests.support.scriptedgroup import response as scripted

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


class StallTests(TestCase):
    @defer.inlineCallbacks
    def test_answers_that_came_while_the_process_stood_still_count(self):
        """Even those that take many reads."""
        with ScriptedServer() as server:
            server.script = lambda request: scripted(
                request, ResponseCode.SUCCESS, body=bytes(int(request.body or b"0"))
            )
            asking = RemotingClient(TcpConnecting(reactor), reactor)
            self.addCleanup(asking.close)
            self.patch(calls_module, "GRACE", 30.0)  # a busy machine's server may take its time as well
            for first, second in ((0, 0), (400_000, 1)):
                yield asking.call(server.address, RemotingCommand(ROUTE), 30)
                calls = [
                    asking.call(server.address, RemotingCommand(ROUTE, body=b"%d" % size), 0.1)
                    for size in (first, second)
                ]
                time.sleep(0.4)
                answers = yield defer.gatherResults(calls)
                self.assertEqual([len(answer.body) for answer in answers], [first, second])
            server.script = lambda request: SILENCE
            self.patch(calls_module, "GRACE", 0.5)
            none = asking.call(server.address, RemotingCommand(ROUTE), 0.1)
            time.sleep(0.4)
            yield self.assertFailure(none, CallTimedOut)
