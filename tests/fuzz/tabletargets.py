"""A slave's tables, and a master that answers whatever it likes: the state machine behind the decoders of tables.

An input is a program of answers to what the slave asks: good ones, those of another question, refusals, bodies and
fields as the input has them, none at all; between them time, another master, messages of unknown topics. Nothing
may be logged as a failure, no table of topics that had some is left without any, and from an honest master the
slave takes its topics afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from hatwisted.broker.consumer.offsetsync import FLUSH_OFFSET, JOINS
from hatwisted.broker.node.slavesync import SlaveSynchronizer, SyncOptions
from hatwisted.broker.node.tablehold import TableHold
from hatwisted.broker.tables import BrokerTables
from hatwisted.clientcore.errors import CallFailed, Refused
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.registration import TopicTable, decode_body
from hatwisted.wire.remoting import RemotingCommand
from tests.fuzz.linktargets import no_failures
from tests.fuzz.servertargets import Program, World, make_broker
from tests.fuzz.target import Target
from tests.fuzz.turns import TURNS
from tests.support.golden import answers
from tests.support.grownqueue import grown
from tests.support.memorylog import MemoryLog

MASTERS = ("10.0.0.1:10911", "10.0.0.2:10911", None)
HONEST = "10.0.0.9:10911"
NEWS = "MadeByAnHonestMaster"
END = 1 << 20
"""Of the slave's log."""
LONGEST = 100
"""Steps of one input."""
EXTS: tuple[dict[str, str], ...] = (
    {},
    {JOINS: "true", FLUSH_OFFSET: "100"},
    {JOINS: "true", FLUSH_OFFSET: "-1"},
    {FLUSH_OFFSET: "9" * 40},
)
CAPTURED = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_BROKER_RUNTIME_INFO,
)


@cache
def bodies() -> dict[int, bytes]:
    """What RocketMQ's master answers, and how far its log goes."""
    known = answers()
    found = {int(code): known[code.name]["body"].encode() for code in CAPTURED}
    found[RequestCode.GET_BROKER_RUNTIME_INFO] = bounds(0, END)
    return found


def bounds(begin: int, end: int) -> bytes:
    return json.dumps({"table": {"commitLogMinOffset": str(begin), "commitLogMaxOffset": str(end)}}).encode()


class Asked:
    """The slave's client: what it has asked and nobody has answered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: list[tuple[str, RemotingCommand, Deferred[RemotingCommand]]] = []

    def ask(self, address: str, command: RemotingCommand, timeout: float) -> Deferred[RemotingCommand]:
        """See RemotingClient."""
        done: Deferred[RemotingCommand] = Deferred()
        self.waiting.append((address, command, done))
        return done.addTimeout(timeout, self._clock, lambda result, seconds: _timed_out(address))

    def answer(self, answer: Callable[[int], RemotingCommand | None]) -> None:
        """The oldest. answer: of its code; None: the connection breaks."""
        while self.waiting:
            address, command, done = self.waiting.pop(0)
            if done.called:
                continue
            made = answer(command.code)
            if made is None:
                done.errback(CallFailed(address, "connection closed"))
            elif made.code:
                done.errback(Refused.of(address, made))
            else:
                done.callback(made)
            return


def _timed_out(address: str) -> RemotingCommand:
    raise CallFailed(address, "no answer in time")


class Slave:
    """Its tables, and how it asks for them. They stay from input to input, as a slave's do."""

    def __init__(self) -> None:
        self._world = World(make_broker)
        self.clock: Clock = self._world.clock
        self.tables: BrokerTables = self._world.service.parts.tables
        self.log = MemoryLog(END)
        self.log.append(bytes(END))
        self.heard = 0
        self.client = Asked(self.clock)
        hold = TableHold(self.clock, self.log, self.log.flush_now, lambda: True, self._hears)
        self.sync = SlaveSynchronizer(
            self.client,  # type: ignore[arg-type]
            self.clock,
            self.tables,
            SyncOptions(own_address="10.0.0.3:10911"),
            hold,
            lambda: True,
        )

    def _hears(self) -> int:
        self.heard += 1
        return self.heard

    def run(self, program: Program) -> None:
        self.sync.start()
        self.sync.follow(MASTERS[0])
        steps = 0
        while program.left and steps < LONGEST:
            had = [*self.tables.topics.made()]
            self._step(program)
            assert [*self.tables.topics.made()] or not had, had
            steps += 1
        self._serve()
        self.sync.stop()
        self.sync.follow(None)
        self.clock.advance(60)

    def _step(self, program: Program) -> None:
        choice = program.byte()
        match choice % 8:
            case 0 | 1:
                TURNS.take(
                    self.client.answer,
                    lambda code: RemotingCommand(0, ext=EXTS[choice >> 4 & 3], body=_good(code)),
                )
            case 2:
                body, ext = program.bytes(), EXTS[choice >> 4 & 3]
                TURNS.take(self.client.answer, lambda code: RemotingCommand(0, ext=ext, body=body))
            case 3:
                other = CAPTURED[program.byte() % len(CAPTURED)]
                TURNS.take(self.client.answer, lambda code: RemotingCommand(0, body=_good(other)))
            case 4:
                TURNS.take(
                    self.client.answer, lambda code: RemotingCommand(1, remark="no") if choice & 16 else None
                )
            case 5:
                self.clock.advance(program.byte() / 4)
            case 6:
                self.sync.follow(MASTERS[program.byte() % len(MASTERS)])
            case 7:
                self.sync.arrived(grown(f"T{program.byte() % 4}", 0, 1))

    def _serve(self) -> None:
        """An honest master, which knows this slave's topics and one more."""
        table = json.loads(self.tables.topics.encode())
        known = decode_body(self.tables.topics.encode(), TopicTable)
        name = NEWS + str(known.data_version.counter)
        some = next(iter(json.loads(_good(RequestCode.GET_ALL_TOPIC_CONFIG))["topicConfigTable"].values()))
        table["topicConfigTable"][name] = some | {"topicName": name}
        table["dataVersion"]["counter"] = known.data_version.counter % (1 << 31) + 1
        honest = {**bodies(), int(RequestCode.GET_ALL_TOPIC_CONFIG): json.dumps(table).encode()}
        self.sync.follow(None)
        self.sync.follow(HONEST)
        for _ in range(30):
            TURNS.take(self.client.answer, lambda code: RemotingCommand(0, body=honest.get(code, b"")))
            self.clock.advance(1)
        assert self.tables.topics.get(name) is not None, name
        self.tables.topics.delete(name)


def _good(code: int) -> bytes:
    return bodies().get(code, b"")


class Slaves:
    """One after another: a new one after so many inputs, or a failure."""

    INPUTS = 200

    def __init__(self) -> None:
        self._slave: Slave | None = None
        self._fed = 0

    def __call__(self, data: bytes) -> None:
        slave = self._slave
        if slave is None or self._fed >= self.INPUTS:
            slave, self._fed = Slave(), 0
        self._slave, self._fed = None, self._fed + 1
        with no_failures():
            slave.run(Program(data))
        self._slave = slave


def programs() -> Iterable[bytes]:
    """Good rounds of both kinds of master, one wrong answer to each question, and another master amid them."""
    good, joining = bytes([0]) * 6, bytes([16]) * 6
    wait = bytes([5, 60])
    yield good + wait + good
    yield joining + wait + joining
    for place in range(5):
        for wrong in (b"", b"{}", b"[]", b"7", b'{"table":7}', b'{"table":{}}', bounds(5, -1), b"{" * 90):
            answer = bytes([2]) + len(wrong).to_bytes(2, "big") + wrong
            yield bytes([0]) * place + answer + good + wait + good
        for other in range(len(CAPTURED)):
            yield bytes([0]) * place + bytes([3, other]) + good
        yield bytes([0]) * place + bytes([6, 1]) + good + wait
        yield bytes([0]) * place + bytes([6, 2, 6, 0, 4, 20]) + good
    yield bytes([7, 0, 5, 8, 7, 1, 5, 8]) + good
    empty = b'{"dataVersion":{"counter":9,"timestamp":1},"topicConfigTable":{}}'
    yield good + wait + bytes([2]) + len(empty).to_bytes(2, "big") + empty + good


RUN: Callable[[bytes], object] = Slaves()
TABLES = {"slave-tables": Target(RUN, (), programs, tries=10, turns=TURNS)}
