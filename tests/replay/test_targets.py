"""That targets notice what goes wrong, and that none of them is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.acl.requestguard import RequestGuard
from hatwisted.broker.admin.adminprocessor import AdminProcessors
from hatwisted.broker.node import slavesync
from hatwisted.broker.pull.pullmessage import PullProcessor
from hatwisted.ha.framecheck import FrameCheck
from hatwisted.ha.haclient import HAClient
from hatwisted.ha.slaveprogress import SendProgress
from hatwisted.wire.codes import RequestCode
from tests.fuzz import servertargets
from tests.fuzz.closedtargets import SIGNERS, ClosedWorld, make_closed
from tests.fuzz.servertargets import CODES, Server, check_broker, make_broker
from tests.fuzz.target import CORPUS, Target, read_corpus
from tests.fuzz.targets import TARGETS
from tests.replay import test_codecs, test_files, test_logs, test_servers
from tests.support.memorylog import MemoryLog


class NoticedTests(SynchronousTestCase):
    """A target that could never fail would prove nothing."""

    def test_what_a_handler_raises(self) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("a mistake")

        self.patch(AdminProcessors, "runtime_info", broken)
        ask = bytes([1, CODES.index(RequestCode.GET_BROKER_RUNTIME_INFO), 0, 0, 0])
        for server in (
            Server(make_broker, lambda world: None),
            Server(make_closed, lambda world: None, ClosedWorld),
        ):
            error = self.assertRaises(AssertionError, server, ask)
            self.assertIn("RuntimeError: a mistake", str(error))
            self.flushLoggedErrors(RuntimeError)

    def test_a_change_of_somebody_without_an_account(self) -> None:
        self.patch(RequestGuard, "denials", lambda self, requests, connection: ())
        make = CODES.index(RequestCode.UPDATE_AND_CREATE_TOPIC)
        server = Server(make_closed, lambda world: None, ClosedWorld)
        unsigned = len(SIGNERS) - 1
        self.assertRaises(AssertionError, server, bytes([1, make, 0, 0, unsigned << 2]))

    def test_a_message_that_comes_back_otherwise(self) -> None:
        self.patch(servertargets, "HONEST", b"what was sent")
        real = PullProcessor.pull

        def other(self: PullProcessor, *arguments: Any) -> Any:
            answer = real(self, *arguments)
            answer.body = answer.body.replace(b"what", b"that")
            return answer

        self.patch(PullProcessor, "pull", other)
        self.assertRaises(AssertionError, Server(make_broker, check_broker), b"")

    def test_a_slave_that_acknowledges_what_isnt_synced(self) -> None:
        self.patch(HAClient, "_acknowledge", lambda self: self._report(self._log.max_offset))
        self.noticed("ha-slave")

    def test_a_slave_that_takes_what_doesnt_continue_its_log(self) -> None:
        def anywhere(self: MemoryLog, offset: int, buffers: Sequence[bytes]) -> None:
            self.overwrite(offset, b"".join(buffers))

        self.patch(FrameCheck, "check", lambda self, offset, size: None)
        self.patch(MemoryLog, "append_raw", anywhere)
        self.noticed("ha-slave")

    def test_a_slave_that_believes_that_all_topics_are_gone(self) -> None:
        self.patch(slavesync, "believe", lambda *tables: None)
        self.noticed("slave-tables")

    def test_a_master_that_believes_any_slave(self) -> None:
        def anything(self: SendProgress, offset: int) -> None:
            self.ack_offset = offset

        self.patch(SendProgress, "acknowledge", anything)
        self.noticed("ha-master")

    def noticed(self, name: str) -> None:
        """One of a target's own seeds is enough."""
        target = TARGETS[name]
        with self.assertRaises(AssertionError):
            for data in target.seeds():
                target.feed(data)
        self.flushLoggedErrors()

    def test_what_a_decoder_raises(self) -> None:
        target = Target(lambda data: data[0], (ValueError,), lambda: [b""])
        self.assertRaises(IndexError, target.feed, b"")


class WholeTests(SynchronousTestCase):
    def test_each_target_has_its_test(self) -> None:
        cases = (test_codecs.CodecTests, test_files.FileTests, test_logs.LogTests, test_servers.ServerTests)
        replayed = {name.removeprefix("test_") for case in cases for name in vars(case)}
        self.assertEqual({name.replace("-", "_") for name in TARGETS} - replayed, set())

    def test_each_target_has_inputs_of_its_own_beside_its_seeds(self) -> None:
        kept = {path.stem for path in CORPUS.iterdir()}
        self.assertEqual(sorted(kept - TARGETS.keys()), [], "nobody is fed with them")
        lacking = [name for name in TARGETS if not {*read_corpus(name)} - {*TARGETS[name].seeds()}]
        self.assertEqual(lacking, [], "make fuzz finds some")
