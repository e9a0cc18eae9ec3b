"""Every decoder with its corpus and with what chance makes of it; `make fuzz` looks further."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.broker.admin.adminprocessor import AdminProcessors
from hatwisted.broker.pull.pullmessage import PullProcessor
from hatwisted.wire.codes import RequestCode
from tests.fuzz import servertargets
from tests.fuzz.mutation import mutated
from tests.fuzz.servertargets import CODES, Server, check_broker, make_broker
from tests.fuzz.target import Target, read_corpus
from tests.fuzz.targets import TARGETS
from tests.support.soak import times


class NoticedTests(SynchronousTestCase):
    """A target that could never fail would prove nothing."""

    def test_what_a_handler_raises(self) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("a mistake")

        self.patch(AdminProcessors, "runtime_info", broken)
        ask = bytes([1, CODES.index(RequestCode.GET_BROKER_RUNTIME_INFO), 0, 0, 0])
        error = self.assertRaises(AssertionError, Server(make_broker, lambda world: None), ask)
        self.assertIn("RuntimeError: a mistake", str(error))
        self.flushLoggedErrors(RuntimeError)

    def test_a_message_that_comes_back_otherwise(self) -> None:
        self.patch(servertargets, "HONEST", b"what was sent")
        real = PullProcessor.pull

        def other(self: PullProcessor, *arguments: Any) -> Any:
            answer = real(self, *arguments)
            answer.body = answer.body.replace(b"what", b"that")
            return answer

        self.patch(PullProcessor, "pull", other)
        self.assertRaises(AssertionError, Server(make_broker, check_broker), b"")

    def test_what_a_decoder_raises(self) -> None:
        target = Target(lambda data: data[0], (ValueError,), lambda: [b""])
        self.assertRaises(IndexError, target.feed, b"")


class TargetTests(SynchronousTestCase):
    def feed(self, name: str, target: Target, data: bytes) -> None:
        try:
            target.feed(data)
        except Exception:
            self.fail(f"{name}, fed with {data!r}:\n{Failure().getTraceback()}")

    def test_nothing_but_its_own_error_leaves_a_decoder(self) -> None:
        for name, target in TARGETS.items():
            known = [*target.seeds(), *read_corpus(name)]
            for data in known:
                self.feed(name, target, data)
            random = Random(name)
            for _ in range(times(target.tries)):
                self.feed(name, target, mutated(random, known))
