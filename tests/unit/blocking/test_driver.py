"""Work done one step after the other, on connections in memory: what is under way, given up, and tried again."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from itertools import count

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.blocking.connection import MAX_IN_FLIGHT, Clock, Connection
from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import DEAD_FOR, Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, ConnectFailed, ConnectionGone, TooManyCalls
from hatwisted.clientcore.tasks import sleep
from hatwisted.pipeline.remote.queuepull import WINDOW, QueuePull, QueueRange
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scriptedgroup import BROKER, TOPIC, record

MASTER, NAME_SERVER = "10.0.0.1:10911", "10.0.0.9:9876"
NOT_FOUND = 17
Script = Callable[[str, RemotingCommand], RemotingCommand | None]
"""The answer; None: the connection breaks while the request is sent."""


class MemoryConnection(Connection):
    """Its server answers at once; what has been received outlives the connection."""

    def __init__(self, address: str, script: Script) -> None:
        self.address = address
        self.open = True
        self.sent: dict[int, RemotingCommand] = {}
        self.received: dict[int, RemotingCommand] = {}
        self._script = script
        self._given = count(1)

    @property
    def in_flight(self) -> int:
        return len(self.sent) + len(self.received)

    def has_ended(self) -> bool:
        return False

    def post(self, request: RemotingCommand) -> int:
        answer = self._script(self.address, request) if self.open else None
        if answer is None:
            self.open = False
            raise ConnectionGone(self.address, "broken pipe")
        number = next(self._given)
        self.sent[number] = answer
        return number

    def answer(self, number: int, timeout: float | None = None) -> RemotingCommand:
        if number not in self.received:
            if not self.open:
                raise ConnectionGone(self.address, "the connection is closed")
            self.received |= self.sent
            self.sent.clear()
        return self.received.pop(number)

    def give_up(self, number: int) -> None:
        (self.sent if number in self.sent else self.received).pop(number)

    def close(self) -> None:
        self.open = False


class DriverCase(SynchronousTestCase):
    def start(self, script: Script, retries: int = 3) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.connections: list[MemoryConnection] = []
        self.script = script
        self.down: set[str] = set()
        settings = ClusterSettings(name_servers=(NAME_SERVER,), retries=retries)
        self.links = Links(settings, lambda: self.now, self.sleep, self.connect)
        self.driver = BlockingDriver(self.links)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def connect(
        self, address: str, settings: ClusterSettings, tls: ssl.SSLContext | None, clock: Clock
    ) -> Connection:
        if address in self.down:
            raise ConnectFailed(address, "connection refused")
        self.connections.append(MemoryConnection(address, lambda *asked: self.script(*asked)))
        return self.connections[-1]


def echo(address: str, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand(0, flag=1, body=request.body)


class DriverTests(DriverCase):
    def test_answers_in_the_order_of_the_requests_and_no_more_under_way_than_a_connection_takes(self) -> None:
        most = 0

        def answer(address: str, request: RemotingCommand) -> RemotingCommand:
            nonlocal most
            most = max(most, self.connections[-1].in_flight + 1)
            return echo(address, request)

        self.start(answer)
        requests = [RemotingCommand(1, body=b"%d" % number) for number in range(3 * MAX_IN_FLIGHT)]
        answers = self.driver.ask_all(MASTER, requests)
        self.assertEqual([each.body for each in answers], [each.body for each in requests])
        self.assertEqual((most, len(self.connections)), (MAX_IN_FLIGHT, 1))

    def test_more_at_once_is_refused(self) -> None:
        self.start(echo)
        calls = [self.driver.post(MASTER, RemotingCommand(1)) for _ in range(MAX_IN_FLIGHT + 1)]
        self.assertRaises(TooManyCalls, calls[-1].result)
        self.assertEqual(self.driver.wait(calls[0]).code, 0)
        self.assertEqual(self.driver.wait(calls[-2]).code, 0)

    def test_what_is_given_up_leaves_nothing_under_way(self) -> None:
        self.start(echo)
        calls = [self.driver.post(MASTER, RemotingCommand(1)) for _ in range(3)]
        calls[1].give_up()
        self.assertEqual(self.connections[0].in_flight, 2)
        self.assertEqual(self.driver.wait(calls[2]).code, 0)
        self.assertEqual((calls[0].done, calls[1].done), (True, False))

    def test_a_broken_connection_fails_its_calls_and_the_next_call_dials(self) -> None:
        self.start(echo)
        first = self.driver.post(MASTER, RemotingCommand(1))
        self.script = lambda address, request: None
        self.assertRaises(ConnectionGone, self.driver.post(MASTER, RemotingCommand(1)).result)
        self.assertRaises(ConnectionGone, self.driver.wait, first)
        self.script = echo
        self.assertEqual(self.driver.ask(MASTER, RemotingCommand(1)).code, 0)
        self.assertEqual(len(self.connections), 2)

    def test_who_cant_be_reached_is_the_last_choice_for_a_while(self) -> None:
        self.start(echo)
        self.down.add(MASTER)
        self.assertRaises(ConnectFailed, self.driver.ask, MASTER, RemotingCommand(1))
        self.assertTrue(self.driver.is_dead(MASTER))
        self.now += DEAD_FOR
        self.assertFalse(self.driver.is_dead(MASTER))

    def test_an_interrupted_wait_leaves_nobody_waiting_for_ever(self) -> None:
        """By Ctrl-C, whose traceback a program shows once it has closed its cluster."""
        self.start(echo)
        first, second = (self.driver.post(MASTER, RemotingCommand(1)) for _ in range(2))
        (connection,) = self.connections
        answer = connection.answer

        def interrupted(number: int, timeout: float | None = None) -> RemotingCommand:
            connection.answer = answer  # type: ignore[method-assign]
            raise KeyboardInterrupt

        connection.answer = interrupted  # type: ignore[method-assign]
        self.assertRaises(KeyboardInterrupt, self.driver.wait, first)
        # What had come of an answer may be lost: the connection is of no use any more.
        self.assertRaises(ConnectionGone, self.driver.wait, first)
        self.assertRaises(ConnectionGone, self.driver.wait, second)
        self.assertEqual(self.driver.ask(MASTER, RemotingCommand(1)).code, 0)
        self.assertEqual(len(self.connections), 2)

    def test_the_logics_timers_are_slept_for(self) -> None:
        self.start(echo)
        self.driver.run(sleep(self.driver, 2.5))
        self.assertEqual((self.pauses, self.now), ([2.5], 1002.5))


class QueuePullTests(DriverCase):
    """A range of one queue, from a master that alone has it."""

    def pulls(self, broken: Callable[[int], bool]) -> None:
        self.posted = 0

        def answer(address: str, request: RemotingCommand) -> RemotingCommand | None:
            if address == NAME_SERVER:
                return RemotingCommand(NOT_FOUND, flag=1)
            self.posted += 1
            if broken(self.posted):
                return None
            begin, most = int(request.ext["queueOffset"]), int(request.ext["maxMsgNums"])
            following = min(begin + most, 1000)
            ext = {"nextBeginOffset": str(following), "minOffset": "0", "maxOffset": "1000"}
            body = b"".join(record(offset) for offset in range(begin, following))
            return RemotingCommand(0, flag=1, ext=ext, body=body)

        self.start(answer)

    def read(self) -> int:
        """Bytes of the range."""
        queue = MessageQueue(broker_name=BROKER, queue_id=0, topic=TOPIC)
        pull = QueuePull(self.driver, QueueRange(queue, 0, 1000, {0: MASTER}))
        return sum(len(chunk) for chunk in pull.chunks())

    def test_pulls_that_a_broken_connection_takes_along_come_again_and_a_round_dials_once(self) -> None:
        self.pulls(lambda number: number in (10, 11, 12))
        self.assertEqual(self.read(), sum(len(record(offset)) for offset in range(1000)))
        to_master = [each for each in self.connections if each.address == MASTER]
        self.assertEqual((self.pauses, len(to_master)), ([0.1, 0.2, 0.4], 4))

    def test_a_master_that_stays_away_is_given_up_after_the_rounds(self) -> None:
        self.pulls(lambda number: number > 2 * WINDOW)
        self.assertRaises(BrokerGone, self.read)
        self.assertEqual(self.pauses, [0.1, 0.2, 0.4])

    def test_a_reader_that_stops_early_leaves_nothing_under_way(self) -> None:
        self.pulls(lambda number: False)
        queue = MessageQueue(broker_name=BROKER, queue_id=0, topic=TOPIC)
        chunks = QueuePull(self.driver, QueueRange(queue, 0, 1000, {0: MASTER})).chunks()
        next(chunks)
        self.assertGreater(self.connections[0].in_flight, 0)
        chunks.close()  # type: ignore[attr-defined]
        self.assertEqual(self.connections[0].in_flight, 0)
