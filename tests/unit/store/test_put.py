"""What a log takes, to the byte, and what it says of the rest."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.log.put import Put, PutLimits, PutStatus
from hatwisted.wire.layout import BLANK_MIN_SIZE, MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH

ILLEGAL, LARGE = PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED
MOST = MAX_PROPERTIES_LENGTH


def put(*entries: tuple[int, int], shared: int = 0) -> Put:
    """entries: bytes of body and properties, each."""
    made = [(0, bytes(body), bytes(properties)) for body, properties in entries]
    content = sum(map(sum, entries)) + shared * len(entries)
    return Put("T", 0, made, b"", 0, shared_properties=bytes(shared), content_size=content)


class PutLimitsTests(SynchronousTestCase):
    def check(self, limits: PutLimits, one: Put, size: int = 1, topic: int = 1) -> tuple[object, str]:
        taken = limits.check(one, size, topic)
        self.assertEqual(taken, one.status is None)
        return one.status, one.reason

    def test_topics(self) -> None:
        limits = PutLimits(1000, 10_000)
        for size in (1, MAX_TOPIC_LENGTH):
            self.assertEqual(self.check(limits, put((1, 1)), topic=size), (None, ""))
        for size in (0, MAX_TOPIC_LENGTH + 1):
            words = f"topic of {size} bytes, allowed are 1 to {MAX_TOPIC_LENGTH}"
            self.assertEqual(self.check(limits, put((1, 1)), topic=size), (ILLEGAL, words))

    def test_records_that_fit_into_a_file_with_a_blank_behind(self) -> None:
        limits = PutLimits(1000, 10_000)
        fits = 10_000 - BLANK_MIN_SIZE
        self.assertEqual(self.check(limits, put((1, 1)), size=fits), (None, ""))
        words = f"{fits + 1} bytes and {BLANK_MIN_SIZE} more don't fit into a commit log file of 10000"
        self.assertEqual(self.check(limits, put((1, 1)), size=fits + 1), (ILLEGAL, words))

    def test_bodies_together(self) -> None:
        limits = PutLimits(1000, 1 << 20)
        for one in (put((1000, 50)), put((600, 50), (400, 50))):
            self.assertEqual(self.check(limits, one), (None, ""))
        words = "body of 1001 bytes, maxMessageSize is 1000"
        for one in (put((1001, 0)), put((600, 50), (401, 50))):
            self.assertEqual(self.check(limits, one), (ILLEGAL, words))

    def test_properties_of_each_message_with_the_shared_ones(self) -> None:
        limits = PutLimits(1 << 20, 1 << 21)
        for one in (put((10, MOST)), put((10, 0), (10, MOST - 5), shared=5), put((MOST, MOST))):
            self.assertEqual(self.check(limits, one), (None, ""))
        words = f"properties of {MOST + 1} bytes, allowed are {MOST}"
        for one in (put((10, MOST + 1)), put((10, 9), (10, MOST - 4), (10, 9), shared=5)):
            self.assertEqual(self.check(limits, one), (LARGE, words))

    def test_what_needs_no_look(self) -> None:
        self.assertEqual(PutLimits(1000, 10_000).easy_size, 1000)
        self.assertEqual(PutLimits(1 << 30, 1 << 30).easy_size, MOST)
        self.assertEqual(PutLimits(1000, 10_000).batch_size, 1000)
        self.assertEqual(PutLimits(1 << 30, 10_000).batch_size, 10_000 - BLANK_MIN_SIZE)
        self.assertEqual(PutLimits(1 << 30, 1000).easy_size, 1000 - BLANK_MIN_SIZE)
