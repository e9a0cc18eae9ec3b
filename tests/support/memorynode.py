"""Whole nodes in memory: put together as twistd puts them together, on one clock and one network without a socket.

Stores lie in the test's temporary folder. `start` a broker or a name server of a configuration, let `pass_time`,
and ask it over the network with `ask`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import connectProtocol
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.nameserver import build_name_server
from hatwisted.assembly.parts import Parts
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.disk.worker import InlineWorker
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.haframe import FrameReceiver, encode_report
from hatwisted.wire.remoting import RemotingCommand

NOW = 1_795_221_957.0
STEP = 0.05
"""Seconds of one turn of the clock, unless a test says otherwise."""

NAME_SERVER = "10.0.0.9:9876"
CLIENT_HOST = "10.0.0.100"


class MemoryNodes:
    """The nodes of one test. What was started is stopped at the test's end."""

    def __init__(self, case: SynchronousTestCase) -> None:
        self.case = case
        self.clock = Clock()
        self.clock.advance(NOW)
        self.network = MemoryNetwork(self.clock)
        self.folder = Path(case.mktemp()).absolute()
        self._crashed: list[Any] = []
        self.client = RemotingClient(self.network.host(CLIENT_HOST), self.clock)
        case.addCleanup(self._stop, self.client.close)

    def parts(self, host: str, **changes: Any) -> Parts:
        """Those of a machine in this network; changes: fields of Parts."""
        network = self.network.host(host)
        made: dict[str, Any] = {
            "clock": self.clock,
            "local_time": lambda seconds: datetime.fromtimestamp(seconds, UTC),
            "file_system": PosixFileSystem(),
            "make_worker": lambda name, threads: InlineWorker(),
            "listening": network,
            "connecting": network,
            "resolve": lambda name: b"\x7f\0\0\x01",
            "random": Random(1),
            "process_id": lambda: 77,
            "boot": "",
            "memory_bytes": 8 << 30,
        }
        return Parts(**made | changes)

    def config(self, host: str, **changes: Any) -> BrokerConfig:
        """A broker's, with small files; changes: fields of BrokerConfig."""
        made: dict[str, Any] = {
            "broker_name": "broker-a",
            "broker_ip1": host,
            "broker_ip2": host,
            "store_path_root_dir": str(self.folder / host),
            "mapped_file_size_commit_log": 1 << 20,
            "mapped_file_size_consume_queue": 20 * 1000,
            "message_index_enable": False,
            "admin_allow_list": "*",
        }
        return BrokerConfig(**made | changes)

    def start(self, host: str, parts: Parts | None = None, **changes: Any) -> Any:
        """A running broker on `host`."""
        node = build_broker(self.config(host, **changes), parts or self.parts(host))
        node.startService()
        self.case.addCleanup(self.stop, node)
        return node

    def start_name_server(self, **changes: Any) -> Any:
        """A running name server at NAME_SERVER."""
        made: dict[str, Any] = {"kv_config_path": str(self.folder / "kv.json"), "admin_allow_list": "*"}
        config = NamesrvConfig(**made | changes)
        names = build_name_server(config, self.parts(NAME_SERVER.rpartition(":")[0]))
        names.startService()
        self.case.addCleanup(self.stop, names)
        return names

    def stop(self, node: Any) -> None:
        """Stop a node in order, if it runs."""
        if node.running and node not in self._crashed:
            self._stop(node.stopService)

    def crash(self, node: Any, host: str) -> None:
        """What kill -9 does to the node on `host`, whose parts have a MortalClock: it does nothing any more, its
        ports and connections are closed."""
        node.parts.clock.dead = True
        self._crashed.append(node)
        for address, port in list(self.network.listening):
            if address == host:
                self.network.listening.pop((address, port))
        for transport in list(self.network.transports):
            if host == transport.getHost().host:
                transport.vanish(told=True)
        self.pass_time(STEP)  # others hear of it

    def _stop(self, stop: Any) -> None:
        stopping = stop()
        if stopping is not None:
            self.result(stopping, 12)
        self.pass_time(STEP)  # others hear of it

    def pass_time(self, seconds: float, step: float = STEP) -> None:
        """Time passes in steps."""
        for _ in range(max(1, round(seconds / step))):
            self.clock.advance(step)

    def result(self, waiting: Deferred[Any], limit: float = 20.0) -> Any:
        """What it fires with, within `limit` seconds of the clock."""
        passed: list[Any] = []
        waiting.addBoth(passed.append)
        deadline = self.clock.seconds() + limit
        while not passed and self.clock.seconds() < deadline:
            self.clock.advance(STEP)
        self.case.assertTrue(passed, f"nothing within {limit:g} s")
        if isinstance(passed[0], Failure):
            passed[0].raiseException()
        return passed[0]

    def ask(self, address: str, code: int, body: bytes = b"", **ext: object) -> RemotingCommand:
        """A client's request and its answer."""
        texts = {name: str(value) for name, value in ext.items()}
        return self.result(self.client.call(address, RemotingCommand(code, ext=texts, body=body), 15))

    def send(self, address: str, body: bytes = b"x", topic: str = "T", properties: str = "") -> int:
        """A message to a broker's queue 0; the answer's code."""
        fields = {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "h": 0, "j": 0}
        fields |= {"g": int(self.clock.seconds() * 1000), "i": properties, "k": "false", "m": "false"}
        return self.ask(address, RequestCode.SEND_MESSAGE_V2, body, **fields).code

    def accept(self, address: str, kind: type[Visitor] | None = None) -> Visitors:
        """Listen at "host:port" as somebody who says nothing; kind: what is made of each connection."""
        host, _, port = address.rpartition(":")
        visitors = Visitors(kind or Visitor)
        self.network.host(host).listenTCP(int(port), visitors)
        return visitors

    def visit(self, address: str, protocol: Protocol, host: str = CLIENT_HOST) -> None:
        """Connect `protocol` from `host` to "host:port"."""
        to_host, _, port = address.rpartition(":")
        connectProtocol(self.network.host(host).endpoint(to_host, int(port)), protocol)
        self.pass_time(0.1)

    def play_slave(self, host: str, address: str, start: int) -> PlayedSlave:
        """A slave that asks the master's HA port for the log from `start` on."""
        slave = PlayedSlave(start)
        self.visit(address, slave, host)
        return slave


@implementer(IReactorTime)
class MortalClock:
    """The clock of one node: what it has planned happens until it is dead."""

    def __init__(self, clock: Clock) -> None:
        self.dead = False
        self._clock = clock

    def seconds(self) -> float:
        """See IReactorTime."""
        return self._clock.seconds()

    def callLater(self, delay: float, call: Callable[..., object], *args: Any, **named: Any) -> IDelayedCall:
        """See IReactorTime."""
        return self._clock.callLater(delay, self._call, call, args, named)

    def _call(self, call: Callable[..., object], args: Any, named: Any) -> None:
        if not self.dead:
            call(*args, **named)

    def getDelayedCalls(self) -> Sequence[IDelayedCall]:
        """See IReactorTime."""
        return self._clock.getDelayedCalls()


class Visitors(Factory):
    """Who has connected, in order."""

    noisy = False

    def __init__(self, kind: type[Visitor]) -> None:
        self.links: list[Visitor] = []
        self._kind = kind

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        """See IProtocolFactory."""
        self.links.append(self._kind())
        return self.links[-1]

    def hang_up(self) -> None:
        """Close all connections."""
        for link in self.links:
            if link.connected:
                link.transport.loseConnection()  # type: ignore[union-attr]


class Visitor(Protocol):
    """One connection; what came over it is in `received`."""

    def __init__(self) -> None:
        self.received = b""

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        self.received += data


class PlayedSlave(Protocol):
    """Reports where it would start, then the end of each frame while `acks` is set."""

    def __init__(self, start: int) -> None:
        self.acks = True
        self._start = start
        self._receiver = FrameReceiver()

    def connectionMade(self) -> None:
        """See IProtocol."""
        self.report(self._start)

    def report(self, offset: int) -> None:
        """Tell the master where this slave's log ends."""
        self.transport.write(encode_report(offset))  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        """See IProtocol."""
        for frame in self._receiver.receive(data):
            if frame.body and self.acks:
                self.report(frame.offset + len(frame.body))
