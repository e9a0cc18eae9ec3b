"""Where queues begin and end, and the offset of a time whatever a broker makes of it."""

from __future__ import annotations

import bisect
import contextlib
import random
from unittest import TestCase

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, Refused
from hatwisted.pipeline.remote.positions import Bounds, bounds_of, offsets_at, store_times
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.layout import SYS_BORN_HOST_V6
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.record import encode_record
from hatwisted.wire.storedrecord import Record, crc
from tests.support.scriptedgroup import (
    BROKER,
    STORED,
    TOPIC,
    ScriptedBroker,
    record,
    response,
)

QUEUE = MessageQueue(broker_name=BROKER, queue_id=0, topic=TOPIC)


class PositionsCase(TestCase):
    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        links = Links(ClusterSettings(name_servers=("127.0.0.1:1",), retries=1), sleep=lambda seconds: None)
        self.driver = self.stack.enter_context(BlockingDriver(links))

    def place(self, *brokers: ScriptedBroker) -> dict[MessageQueue, dict[int, str]]:
        for broker in brokers:
            self.stack.enter_context(broker)
        return {QUEUE: {number: broker.address for number, broker in enumerate(brokers)}}


class BoundsTest(PositionsCase):
    def test_the_master_says_it(self) -> None:
        placed = self.place(ScriptedBroker(range(5, 100)), ScriptedBroker(range(7, 90), slave=True))
        self.assertEqual(bounds_of(self.driver, placed), {QUEUE: Bounds(5, 100)})

    def test_or_a_slave_when_the_master_is_gone(self) -> None:
        master = ScriptedBroker(range(5, 100))
        placed = self.place(master, ScriptedBroker(range(7, 90), slave=True))
        master.stop()
        self.assertEqual(bounds_of(self.driver, placed), {QUEUE: Bounds(7, 90, by_master=False)})

    def test_nobody(self) -> None:
        master = ScriptedBroker(range(5))
        placed = self.place(master)
        master.stop()
        with self.assertRaisesRegex(BrokerGone, "broker broker-a: no broker of its group answers: 127.0.0.1"):
            bounds_of(self.driver, placed)

    def test_refused(self) -> None:
        master = ScriptedBroker(range(5))
        master.script = lambda request: response(request, 1, "acl.common.AclException: no account")
        with self.assertRaisesRegex(Refused, "code 1 SYSTEM_ERROR: acl.common.AclException"):
            bounds_of(self.driver, self.place(master))

    def test_hundreds_of_queues(self) -> None:
        (replicas,) = self.place(ScriptedBroker(range(5, 100))).values()
        queues = [MessageQueue(broker_name=BROKER, queue_id=each, topic=TOPIC) for each in range(300)]
        found = bounds_of(self.driver, dict.fromkeys(queues, replicas))
        self.assertEqual(list(found), queues)
        self.assertEqual(set(found.values()), {Bounds(5, 100)})


class TimeTest(PositionsCase):
    def check(self, times: list[int], low: int, wanted: int, estimate: int | None) -> None:
        offsets = range(low, low + len(times))
        broker = ScriptedBroker()
        broker.messages = {each: record(each, stored=time) for each, time in zip(offsets, times, strict=True)}
        broker.low, broker.high = low, low + len(times)
        if estimate is not None:
            broker.script = lambda request: (
                response(request, 0, offset=estimate)
                if request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
                else None
            )
        placed = self.place(broker)
        bounds = bounds_of(self.driver, placed)
        found = offsets_at(self.driver, placed, bounds, wanted)[QUEUE]
        broker.stop()
        self.assertEqual(found, low + bisect.bisect_left(times, wanted), (times, wanted, estimate))

    def test_the_first_message_stored_then_or_later_wherever_the_search_begins(self) -> None:
        dice = random.Random(20)
        for _ in range(25):
            low, size = dice.choice((0, 37)), dice.randrange(1, 120)
            times = sorted(dice.randrange(1000, 1000 + dice.choice((3, 50, 1000))) for _ in range(size))
            wanted = dice.choice((999, 1000, 1001, 1025, 1500, 5000, dice.choice(times)))
            self.check(times, low, wanted, dice.randrange(0, low + size + 5))

    def test_many_messages_of_one_millisecond(self) -> None:
        """4.9.7 answers any of them."""
        self.check([1000] * 200, 0, 1000, 150)
        self.check([1000] * 50 + [2000] * 100 + [3000] * 50, 10, 2000, 110)

    def test_a_time_behind_all_is_the_queues_end(self) -> None:
        """4.9.7 answers the last message."""
        self.check([1000, 2000, 3000], 5, 4000, 7)

    def test_an_empty_queue_is_not_searched(self) -> None:
        broker = ScriptedBroker()
        broker.low = broker.high = 12
        placed = self.place(broker)
        self.assertEqual(offsets_at(self.driver, placed, bounds_of(self.driver, placed), 5), {QUEUE: 12})
        self.assertNotIn(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, broker.codes())

    def test_a_refused_search(self) -> None:
        broker = ScriptedBroker(range(3))
        broker.script = lambda request: (
            response(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no 29 here")
            if request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            else None
        )
        placed = self.place(broker)
        with self.assertRaisesRegex(Refused, "no 29 here"):
            offsets_at(self.driver, placed, bounds_of(self.driver, placed), 5)

    def test_store_times_of_ipv6_producers(self) -> None:
        born = HostPort(b"\x20\x01" + bytes(14), 4711)
        fields = Record(
            TOPIC, 0, 0, SYS_BORN_HOST_V6, 8, 0, 1, born, 4000, STORED, 0, 0, b"x", b"", crc(b"x"), 0
        )
        chunk = encode_record(fields) + record(9, stored=5000)
        self.assertEqual(list(store_times(memoryview(chunk))), [(8, 4000), (9, 5000)])
