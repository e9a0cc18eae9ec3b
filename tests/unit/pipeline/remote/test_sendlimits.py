"""What a producer of a Spark task holds, and what one request of it carries: more is sent first."""

from __future__ import annotations

from unittest import TestCase
from unittest.mock import patch

from hatwisted.pipeline.remote import batchproducer
from hatwisted.pipeline.remote.batchproducer import (
    BATCH_BYTES,
    BATCH_COUNT,
    HELD_BYTES,
    HELD_MESSAGES,
    Outgoing,
    Producer,
)
from hatwisted.wire.batch import decode_batch
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.pipeline.remote.test_batchproducer import TOPIC, OneBroker


class Counting(OneBroker):
    """And what its requests carry."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[int, int]] = []

    def post(self, address: str, request: RemotingCommand):  # type: ignore[no-untyped-def]
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            self.requests.append((len(decode_batch(request.body)), len(request.body)))
        return super().post(address, request)


class SendLimitTests(TestCase):
    def held(self, *bodies: bytes) -> tuple[int, int]:
        """The most messages, and bytes of them, that were held after a send."""
        self.broker = Counting()
        producer = Producer(self.broker)  # type: ignore[arg-type]
        messages = bytes_held = 0
        for number, body in enumerate(bodies):
            producer.send(Outgoing(number, TOPIC, body))
            messages, bytes_held = max(messages, producer._held), max(bytes_held, producer._held_bytes)
        producer.drain()
        self.assertEqual(self.broker.stored, list(bodies))
        return messages, bytes_held

    def test_a_request_has_no_more_messages_and_bytes(self) -> None:
        self.held(*[b"x"] * (3 * BATCH_COUNT))
        self.assertEqual(max(count for count, _ in self.broker.requests), BATCH_COUNT)
        self.held(*[bytes(BATCH_BYTES // 3)] * 9)
        self.assertLessEqual(max(size for _, size in self.broker.requests), BATCH_BYTES)
        self.assertEqual(max(count for count, _ in self.broker.requests), 2)

    def test_no_more_is_held(self) -> None:
        self.assertLessEqual(max(HELD_MESSAGES // BATCH_COUNT, HELD_BYTES // BATCH_BYTES), 64)
        with patch.object(batchproducer, "HELD_MESSAGES", 10):
            self.assertEqual(self.held(*[b"x"] * 50)[0], 10)
        with patch.object(batchproducer, "HELD_BYTES", 5000):
            self.assertLessEqual(self.held(*[bytes(900)] * 50)[1], 5000)
