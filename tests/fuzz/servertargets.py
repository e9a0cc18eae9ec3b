"""A whole broker, and a name server, behind a port: what a client may send, request after request.

An input is a program for several clients: which of them sends next, which code, which fields with which values,
which body; or bytes as they are. What the codes and fields are called is known here, so most requests get past
the first look. All goes to one broker that lives for a while, as a real one does: state is part of what is
looked for. A handler that raises what it doesn't answer is logged with a traceback, which counts as a crash
here; and after each input an honest client's message has to come back as it was sent.

The broker's disk is in memory, its clock stands still but for what an input says, and its clients' transports
keep what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from random import Random
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.nameserver import build_name_server
from hatwisted.assembly.parts import Parts
from hatwisted.config.schema import BrokerConfig, BrokerRole, NamesrvConfig
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.trace import Trace
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.store.dispatch.reput import BUSY_COALESCE
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command
from tests.fuzz.target import Target
from tests.fuzz.turns import TURNS, TurnClock
from tests.fuzz.wiretargets import EXTS, KEY, ROUTE, heartbeat, registrations

CODES = tuple(RequestCode)
VALUES = (
    *("T", "U", "g", "p", "", "0", "1", "-1", "7", "32", "65536", "2147483647", "9223372036854775807", "1e9"),
    *("true", "false", "*", "a || b", "TAG", "SQL92", "a = 1", "SINGLE_TAG", "%RETRY%g", "%DLQ%g", "TBW102"),
    *(
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "127.0.0.1:10911",
        "h:1",
        "../x",
        "a\nb\x1b[31m",
        "x" * 300,
    ),
    *(
        "DELAY\x012\x02TAGS\x01a\x02KEYS\x01k",
        "TRAN_MSG\x01true\x02PGROUP\x01p",
        "UNIQ_KEY\x01U\x02WAIT\x01false",
    ),
)
FIELDS = dict(
    pair.split("=", 1)
    for pair in """
        consumerGroup=g group=g producerGroup=p topic=T queueId=0 defaultTopic=TBW102
        defaultTopicQueueNums=4 sysFlag=0 bornTimestamp=1 flag=0 properties= batch=false queueOffset=0
        maxMsgNums=32 commitOffset=0 subscription=* suspendTimeoutMillis=0 subVersion=0 offset=0
        delayLevel=0 timestamp=1 isForce=true isOrder=false tranStateTableOffset=0 commitLogOffset=0
        commitOrRollback=8 msgId=m perm=6 readQueueNums=4 writeQueueNums=4 topicFilterType=SINGLE_TAG
        groupName=g clientId=c clientID=c srcGroup=g destGroup=h statsName=TOPIC_PUT_NUMS statsKey=T index=0
        count=10 key=k maxNum=32 beginTimestamp=0 endTimestamp=9999999999999 compareGroup=h filterGroups=i
        reconsumeTimes=0 unitMode=false maxReconsumeTimes=16 brokerName=b brokerAddr=h:1 clusterName=c
        haServerAddr=h:2 brokerId=0 cluster=c namespace=N value=v accessKey=key secretKey=12345678 begin=0
        end=100 a=p b=T c=TBW102 d=4 e=0 f=0 g=1 h=0 i= j=0 k=false l=16 m=false
    """.split()
)
"""A value for every field of every request; what isn't a request's own is ignored by it."""
NAMES = tuple(FIELDS)
BODIES = (
    *(
        b"",
        b"body",
        heartbeat(),
        ROUTE,
        *registrations(),
        b'{"consumerGroup":"g","clientId":"c","mqSet":[' + KEY + b"]}",
    ),
    *(
        b'{"offsetTable":{"T@g":{0:1}}}',
        b'{"dataVersion":{"counter":1}}',
        b'{"groupName":"g"}',
        b"fileReservedTime=48",
    ),
    b'{"clientId":"c","group":"g","subscriptionData":{"topic":"T","subString":"a = 1","expressionType":"SQL92"}}',
)
CLIENTS = 3
WORLD_INPUTS = 1000
"""Inputs that one broker is fed."""
LONGEST_PROGRAM = 64
"""Requests of one input."""
HONEST = b"what an honest client has sent"
PIPELINED = (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_NAMESRV_CONFIG)
"""Requests that are quickly asked, and not so quickly answered."""
CHANGES_SETTINGS = (
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.UPDATE_NAMESRV_CONFIG,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
)


class Program:
    """Choices, made by bytes; once they're used up all are the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def bytes(self) -> bytes:
        size = self.byte() << 8 | self.byte()
        self._at += size
        return self._data[self._at - size : self._at]

    def value(self) -> str:
        number = self.byte()
        return VALUES[number] if number < len(VALUES) else self.bytes().decode("utf-8", "replace")

    def request(self) -> RemotingCommand:
        code = CODES[self.byte() % len(CODES)]
        ext = dict(FIELDS)
        for _ in range(self.byte() % 8):
            ext[NAMES[self.byte() % len(NAMES)]] = self.value()
        number = self.byte()
        body = BODIES[number] if number < len(BODIES) else self.bytes()
        flags = self.byte()
        return RemotingCommand(
            code,
            flag=flags & 3,
            opaque=flags,
            version=407 + (flags >> 4) * 20,
            ext=ext,
            body=body,
            binary=bool(flags & 8),
        )


class ClientsTransport(StringTransport):
    """Twisted's for tests, as a TCP transport."""

    def abortConnection(self) -> None:
        self.disconnecting = True

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def setTcpKeepAlive(self, enabled: bool) -> None: ...


class World:
    """A server and its clients. make: builds it of parts, and gives its factory."""

    def __init__(self, make: Callable[[Parts], tuple[Any, Any]]) -> None:
        self.clock = TurnClock()
        self.clock.advance(1_795_221_957)
        disk = SimDisk(self.clock.seconds, Trace(self.clock.seconds))
        disk.makedirs("/home")
        host = MemoryNetwork(self.clock).host("127.0.0.1")
        parts = Parts(
            clock=self.clock,
            local_time=lambda seconds: datetime.fromtimestamp(seconds, UTC),
            file_system=disk,
            make_worker=lambda name, threads: InlineWorker(),
            listening=host,
            connecting=host,
            resolve=lambda name: bytes((127, 0, 0, 1)),
            random=Random(1),
            process_id=lambda: 1,
            boot="",
            memory_bytes=1 << 30,
        )
        self.service, self.factory = make(parts)
        self.service.startService()
        self.clients: list[Any] = [None] * CLIENTS
        self.inputs = 0
        self.changed = False
        """Has somebody changed its configuration, or its accounts? Then it may refuse honest clients."""

    def connection(self) -> Any:
        made = self.factory.buildProtocol(None)
        made.makeConnection(ClientsTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 40000)))
        return made

    def encoded(self, request: RemotingCommand, *, honest: bool = False) -> bytes:
        """As a client sends it."""
        return encode_command(request)

    def client(self, number: int) -> Any:
        known = self.clients[number]
        if known is None or known.transport.disconnecting:
            self.close(number)
            known = self.clients[number] = self.connection()
        return known

    def close(self, number: int) -> None:
        known, self.clients[number] = self.clients[number], None
        if known is not None:
            known.connectionLost(Failure(ConnectionDone()))

    def turn(self, seconds: float = 0.0) -> None:
        for _ in range(4):
            self.clock.advance(seconds or 0.001)

    def ask(self, request: RemotingCommand) -> RemotingCommand:
        """As an honest client."""
        honest = self.connection()
        honest.dataReceived(self.encoded(request, honest=True))
        for _ in range(50):
            answers = RemotingReceiver().receive(honest.transport.value())
            if answers:
                break
            self.turn()
        honest.connectionLost(Failure(ConnectionDone()))
        assert answers, f"no answer to {request.code}"
        return answers[0]

    def run(self, data: bytes) -> None:
        program, steps = Program(data), 0
        while program.left and steps < LONGEST_PROGRAM:
            steps += 1
            choice = program.byte()
            number = (choice >> 4) % CLIENTS
            match choice & 15:
                case 14:
                    TURNS.take(self.client(number).dataReceived, program.bytes())
                case 15:
                    self.close(number) if program.byte() & 1 else self.turn(program.byte() / 10)
                case _:
                    request = program.request()
                    self.changed |= request.code in CHANGES_SETTINGS
                    TURNS.take(self.client(number).dataReceived, self.encoded(request))
            if choice & 1:
                self.turn()
        for number in range(CLIENTS):
            self.close(number)
        self.turn()


class Server:
    """Worlds, one after another.

    - make: a server of its parts, and its factory
    - check: what has to hold after each input
    - kind: of world
    """

    def __init__(
        self,
        make: Callable[[Parts], tuple[Any, Any]],
        check: Callable[[World], None],
        kind: type[World] = World,
    ) -> None:
        self._make = make
        self._check = check
        self._kind = kind
        self._world: World | None = None
        self._failures: list[str] = []

    def __call__(self, data: bytes) -> None:
        world = self._world
        if world is None or world.inputs >= WORLD_INPUTS:
            world = self._world = self._kind(self._make)
        world.inputs += 1
        globalLogPublisher.addObserver(self._observe)
        try:
            world.run(data)
            if not world.changed:
                self._check(world)
            assert not self._failures, self._failures[0]
        except BaseException:
            self._world = None
            raise
        finally:
            globalLogPublisher.removeObserver(self._observe)
            if world.changed:
                self._world = None
            self._failures.clear()

    def _observe(self, event: LogEvent) -> None:
        failure = event.get("log_failure")
        if failure is not None and event.get("log_level") is LogLevel.critical:
            self._failures.append(f"{formatEvent(event)}\n{failure.getTraceback()}")


def make_broker(parts: Parts, **more: Any) -> tuple[Any, Any]:
    """more: fields of its configuration."""
    config = BrokerConfig(
        broker_role=BrokerRole.ASYNC_MASTER,
        broker_name="b",
        broker_ip1="127.0.0.1",
        broker_ip2="127.0.0.1",
        bind_address="127.0.0.1",
        store_path_root_dir="/home/store",
        broker_config_path="/home/broker.conf",
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20 * 100,
        max_hash_slot_num=100,
        max_index_num=400,
        message_delay_level="1s 5s",
        namesrv_addr="127.0.0.1:9876",
        enable_property_filter=True,
        **more,
    )
    node = build_broker(config, parts)
    return node, node._factories[0]


def make_name_server(parts: Parts) -> tuple[Any, Any]:
    config = NamesrvConfig(kv_config_path="/home/kv.json", config_store_path="/home/namesrv.properties")
    service = build_name_server(config, parts)
    return service, service._factory


DISPATCHED = 2 * BUSY_COALESCE
"""Seconds after which a message is in its queue, however many came before it."""


def check_broker(world: World) -> None:
    """An honest client's message comes back as it was sent."""
    ext = {**EXTS[1], "b": "Honest", "i": ""}
    sent = world.ask(
        RemotingCommand(RequestCode.SEND_MESSAGE_V2, version=407, ext={**ext, "e": "0"}, body=HONEST)
    )
    assert sent.code == 0, sent
    world.turn(DISPATCHED)
    ext = {**EXTS[0], "topic": "Honest", "queueOffset": sent.ext["queueOffset"], "subscription": "*"}
    ext |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
    pulled = world.ask(RemotingCommand(RequestCode.PULL_MESSAGE, version=407, ext=ext))
    assert pulled.code == 0 and HONEST in pulled.body, pulled


def check_name_server(world: World) -> None:
    assert world.ask(RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0


def programs() -> Iterable[bytes]:
    """Each code once, bytes as they are, and reads full of requests."""
    for number in range(len(CODES)):
        for body in (0, 1, 2, 6):
            yield bytes([1, number, 0, body, 0])
    yield bytes([14, 0, 4]) + bytes(4)
    for code in PIPELINED:
        frame = encode_command(RemotingCommand(code, ext={"topic": "T", "key": "k", "namespace": "N"}))
        read = frame * (0xFFFF // len(frame))
        yield bytes([14]) + len(read).to_bytes(2, "big") + read + bytes([1, 0, 0, 0, 0])


SERVERS = {
    "broker": Target(Server(make_broker, check_broker), (), programs, tries=400, turns=TURNS),
    "name-server": Target(Server(make_name_server, check_name_server), (), programs, tries=600, turns=TURNS),
}
