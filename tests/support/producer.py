"""A producer thread that remembers what it was promised.

It keeps some requests in flight on one connection, reconnects for ever, and writes down for every PUT_OK the
commit log offset and the checksum of the body. Afterwards a store can be checked against these promises. What
was under way when a connection broke is unknown, and counts for nothing.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from hatwisted.blocking.connection import Connection
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone
from hatwisted.clientcore.sending import Outgoing
from hatwisted.wire.batch import encode_batch
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.remoting import RemotingCommand
from testbed.storefiles import read_log

WINDOW = 32  # requests in flight
PACE = 1500  # requests a second at most: leaves two cores to the brokers, and stores of some 10 MB
TOPICS = ("LoadA", "LoadB", "LoadC")
QUEUES = 4
BATCH_SHARE, BIG_SHARE = 0.1, 0.02
SIZES, BIG_SIZES, BATCH_COUNTS = (0, 2500), (20_000, 60_000), (2, 20)  # bytes, bytes, messages
TIMEOUT = 30.0  # above the brokers' own waits for a slave
RETRY_SECONDS = 0.1


class Flight(NamedTuple):
    """A request that waits for its answer: its number on the connection, and what it brings to which queue."""

    number: int
    queue: MessageQueue
    bodies: list[bytes]


class Producer(threading.Thread):
    """Sends until stopped; use it as a context manager, and look at `acked` after it has ended."""

    def __init__(self, port: int, seed: int = 7, pace: float = PACE) -> None:
        super().__init__(name=f"producer {seed}", daemon=True)
        self.port = port
        self.acked: dict[int, int] = {}  # commit log offset -> CRC-32 of the body
        self.conflicts: list[int] = []  # offsets that were promised to two different messages
        self.codes: Counter[int] = Counter()
        self.remarks: dict[int, str] = {}
        self.reconnects = 0
        self.failure: BaseException | None = None
        self._random = random.Random(seed)
        self._seed, self._pace = seed, pace
        self._sequence = 0
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """Stop sending, take the answers that still come, end the thread."""
        self._stopping.set()
        self.join(2 * TIMEOUT)
        assert not self.is_alive(), "the producer didn't end"
        if self.failure is not None:
            raise self.failure

    def wait_acked(self, more: int, seconds: float = 120.0) -> None:
        """Until `more` further messages were acknowledged."""
        goal, deadline = len(self.acked) + more, time.monotonic() + seconds
        while len(self.acked) < goal:
            if self.failure is not None:
                raise self.failure
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{goal - len(self.acked)} of {more} puts not acknowledged; {self.story()}"
                )
            time.sleep(0.02)

    def story(self) -> str:
        return f"codes {dict(self.codes)}, {self.remarks}, {self.reconnects} reconnects"

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._one_connection()
                except BrokerGone:
                    self.reconnects += 1
                    self._stopping.wait(RETRY_SECONDS)
        except BaseException as failure:  # reported by finish(), in the test's own thread
            self.failure = failure

    def _one_connection(self) -> None:
        waiting: deque[Flight] = deque()
        due = time.monotonic()
        address = f"127.0.0.1:{self.port}"
        connection = Connection(address, ClusterSettings(name_servers=(address,), answer_timeout=TIMEOUT))
        with closing(connection):
            while not self._stopping.is_set():
                while len(waiting) < WINDOW and time.monotonic() >= due:
                    waiting.append(self._send_something(connection))
                    due = max(due + 1 / self._pace, time.monotonic() - 0.1)
                if waiting:
                    self._note_oldest(connection, waiting)
                else:
                    time.sleep(max(0.0, due - time.monotonic()))
            while waiting:
                self._note_oldest(connection, waiting)

    def _send_something(self, connection: Connection) -> Flight:
        chance = self._random
        topic, queue = chance.choice(TOPICS), chance.randrange(QUEUES)
        if chance.random() < BATCH_SHARE:
            bodies = [self._body(SIZES) for _ in range(chance.randint(*BATCH_COUNTS))]
            code, properties = RequestCode.SEND_BATCH_MESSAGE, encode_properties({"WAIT": "true"})
            content = encode_batch((0, each, encode_properties(self._properties())) for each in bodies)
        else:
            bodies = [content := self._body(BIG_SIZES if chance.random() < BIG_SHARE else SIZES)]
            code, properties = RequestCode.SEND_MESSAGE_V2, encode_properties(self._properties())
        out = Outgoing(topic=topic, code=code, body=content, properties=properties, ids=())
        place = MessageQueue(broker_name="", queue_id=queue, topic=topic)
        self.sending(place, bodies)
        number = connection.post(out.request("loader", place, round(time.time() * 1000)))
        return Flight(number, place, bodies)

    def _body(self, sizes: tuple[int, int]) -> bytes:
        self._sequence += 1
        head = b"%d-%d " % (self._seed, self._sequence)
        return (head * (self._random.randint(*sizes) // len(head) + 1))[: max(len(head), sizes[1])]

    def _properties(self) -> Mapping[str, str]:
        self._sequence += 1
        unique = f"{self._seed:016X}{self._sequence:016X}"
        keys = f"key{self._sequence} all" if self._random.random() < 0.5 else f"käy{self._sequence}"
        return {"KEYS": keys, "UNIQ_KEY": unique, "WAIT": "true", "TAGS": f"Tag{self._sequence % 5}"}

    def _note_oldest(self, connection: Connection, waiting: deque[Flight]) -> None:
        flight = waiting.popleft()
        answer = connection.answer(flight.number)
        self.codes[answer.code] += 1
        if answer.code:
            self.remarks[answer.code] = (answer.remark or "")[:120]
        self.answered(flight, answer, offsets_of(answer, len(flight.bodies)))

    def sending(self, queue: MessageQueue, bodies: list[bytes]) -> None:
        """These are about to be sent; for subclasses."""

    def answered(self, flight: Flight, answer: RemotingCommand, offsets: list[int]) -> None:
        """An answer has come, with the log offsets that it names, if any."""
        if answer.code:
            return
        for offset, body in zip(offsets, flight.bodies, strict=True):
            if offset in self.acked:
                self.conflicts.append(offset)
            self.acked[offset] = zlib.crc32(body)


def offsets_of(answer: RemotingCommand, count: int) -> list[int]:
    """Where `count` messages stand in the log; none if the answer names no place."""
    ids = answer.ext["msgId"].split(",") if "msgId" in answer.ext else []
    assert len(ids) in (0, count), f"{len(ids)} ids for {count} messages"
    return [int(each[-16:], 16) for each in ids]


def broken_promises(producer: Producer, store: Path) -> list[int]:
    """Offsets acknowledged PUT_OK whose record in the store is missing or another one."""
    stored = {message.offset: zlib.crc32(message.body) for message in read_log(store)}
    wrong = [offset for offset, checksum in producer.acked.items() if stored.get(offset) != checksum]
    return sorted(wrong) + producer.conflicts
