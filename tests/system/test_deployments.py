"""The four ways to deploy (B01, B05 to B09), each from its shipped files, with one story told from end to end.

Producers spread over all masters, a consumer reads everything once, broker-a's master is killed with a backlog
unread, and comes back. What the modes promise differs in the middle: whether sends go on and whether the
backlog can be read before it is back. At the end every mode has lost and repeated nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testbed.processes import (
    BROKER_PORTS,
    REPOSITORY,
    ServerProcess,
    all_stopped,
    free_port,
    wait_until,
)
from testbed.remotingclient import RemotingClient, RemotingFailure
from testbed.storefiles import first_difference
from tests.support.clusterclient import RoutedConsumer, RoutedProducer, SendFailed, route_of
from tests.support.soak import in_soak
from tests.system.test_processes import LOCAL, SMALL, server

TOPIC = "Deployed"
SOME = 24  # messages of one step; a multiple of every number of queues here
SYNC_SECONDS = 120.0  # a slave copies its master's tables every 10 s
LINK_SECONDS = 120.0


@dataclass(frozen=True)
class Mode:
    """What is started, and what holds while broker-a's master is dead."""

    files: str  # a glob below conf/
    sends_go_on: bool
    backlog_readable: bool


MODES = {
    "single master": Mode("broker.conf", sends_go_on=False, backlog_readable=False),
    "several masters": Mode("2m-noslave/*", sends_go_on=True, backlog_readable=False),
    "several masters with slaves async": Mode("2m-2s-async/*", sends_go_on=True, backlog_readable=True),
    "several masters with slaves sync": Mode("2m-2s-sync/*", sends_go_on=True, backlog_readable=True),
}


ASYNC = "several masters with slaves async"
TRIED = [
    in_soak(mode, why="as many servers, with slaves that nobody waits for") if name == ASYNC else mode
    for name, mode in MODES.items()
]


@dataclass
class Deployment:
    """The servers of a mode by broker name, a producer and a consumer."""

    namesrv: ServerProcess
    masters: dict[str, ServerProcess] = field(default_factory=dict)
    slaves: dict[str, ServerProcess] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = RoutedProducer(self.namesrv.port, TOPIC)
        self.consumer = RoutedConsumer(self.namesrv.port, TOPIC, "deployed-group")

    def servers(self) -> list[ServerProcess]:
        return [self.namesrv, *self.masters.values(), *self.slaves.values()]

    def start(self) -> None:
        """Slaves first: they wait for their masters."""
        for each in (self.namesrv, *self.slaves.values(), *self.masters.values()):
            each.start()
        wait_until(lambda: self.known() == self.expected(), LINK_SECONDS, "all are registered")

    def known(self) -> dict[str, set[int]]:
        route = route_of(self.namesrv.port, "TBW102")
        return {name: set(ports) for name, ports in route.ports.items()} if route else {}

    def expected(self) -> dict[str, set[int]]:
        return {name: {0, 1} if name in self.slaves else {0} for name in self.masters}

    def create_topic(self) -> None:
        """On every master, by a send that it answers with OK: a SYNC_MASTER has its slave then."""
        for master in self.masters.values():
            with RemotingClient("127.0.0.1", master.port) as client:
                wait_until(lambda client=client: self._first(client), LINK_SECONDS, f"{master.name} says OK")

        def routed() -> bool:
            route = route_of(self.namesrv.port, TOPIC)
            return route is not None and route.queues.keys() == self.masters.keys()

        wait_until(routed, 60, "the topic has its route")

    def _first(self, client: RemotingClient) -> bool:
        self.sent.append(b"first %d" % len(self.sent))
        return client.send(TOPIC, self.sent[-1]).code == 0

    def send(self, count: int = SOME) -> Counter[str]:
        """Messages by the master that took them, all with code 0."""
        takers: Counter[str] = Counter()
        for _ in range(count):
            body = b"%d" % len(self.sent)
            name, result = self.producer.send(body)
            assert result.code == 0, result
            self.sent.append(body)
            takers[name] += 1
        return takers

    def read_all(self, seconds: float = 60.0) -> None:
        self.seen += [
            each.body for each in self.consumer.poll_until(len(self.sent) - len(self.seen), seconds)
        ]

    def read_some(self) -> None:
        """One look at every broker that can be reached."""
        with suppress(OSError, RemotingFailure):
            self.seen += [each.body for each in self.consumer.poll()]

    def wait_slaves(self) -> None:
        """Until each slave has its master's log, and the topic with the group's progress."""
        for name, slave in self.slaves.items():
            master = self.masters[name]
            wait_until(lambda m=master, s=slave: end_of(m) == end_of(s), 60, f"{slave.name} has the log")
            stores = master.folder / "store", slave.folder / "store"
            assert first_difference(*stores, int(end_of(master))) is None, f"{slave.name} has another log"
            wait_until(
                lambda m=master, s=slave: self._progress(m) == self._progress(s),
                SYNC_SECONDS,
                f"{slave.name} has the tables",
            )

    def _progress(self, broker: ServerProcess) -> list[int | None]:
        progress = [self.consumer.committed(broker.port, queue) for queue in range(4)]
        assert broker in self.slaves.values() or progress != [None] * 4
        return progress


def end_of(broker: ServerProcess) -> str:
    with RemotingClient("127.0.0.1", broker.port) as client:
        return client.runtime_info()["commitLogMaxOffset"]


def deployment(folder: Path, mode: Mode) -> Deployment:
    """Every file of the mode with ports and folders of its own."""
    namesrv_port = free_port()
    made = Deployment(server("hanamesrv", folder / "namesrv", namesrv_port, None, bindAddress="127.0.0.1"))
    for conf in sorted((REPOSITORY / "conf").glob(mode.files)):
        slave = conf.stem.endswith("-s")
        broker = server(
            "haslave" if slave else "hamaster",
            folder / conf.stem,
            free_port(BROKER_PORTS),
            conf,
            namesrvAddr=f"127.0.0.1:{namesrv_port}",
            **LOCAL,
            **SMALL,
        )
        name = "broker-a" if conf.stem == "broker" else conf.stem.removesuffix("-s")
        (made.slaves if slave else made.masters)[name] = broker
    return made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as leaving:
        yield leaving


@pytest.mark.parametrize("mode", TRIED, ids=[name.replace(" ", "-") for name in MODES])
def test_B01_B05_B06_B08_B09_a_mode_from_its_files_end_to_end(
    mode: Mode, tmp_path: Path, stack: ExitStack
) -> None:
    cluster = deployment(tmp_path, mode)
    stack.enter_context(all_stopped(*cluster.servers()))
    cluster.start()
    cluster.create_topic()
    takers = cluster.send()
    assert set(takers.values()) == {SOME // len(cluster.masters)}, "not spread evenly over all masters"
    assert takers.keys() == cluster.masters.keys()
    cluster.read_all()
    cluster.consumer.commit()

    cluster.send()
    cluster.wait_slaves()
    cluster.masters["broker-a"].kill()
    wait_until(lambda: 0 not in cluster.known().get("broker-a", set()), 60, "the dead master is noticed")
    if mode.sends_go_on:
        assert cluster.send().keys() == {"broker-b"}
    else:
        with pytest.raises(SendFailed):
            cluster.producer.send(b"nobody takes this")
    if mode.backlog_readable:
        cluster.read_all()
        assert cluster.slaves["broker-a"].port in cluster.consumer.served_by
    else:
        cluster.read_some()
        assert len(cluster.seen) < len(cluster.sent), "read from nowhere"

    cluster.masters["broker-a"].start()
    wait_until(lambda: cluster.known() == cluster.expected(), LINK_SECONDS, "the master is back")
    cluster.read_all()
    if "broker-a" in cluster.slaves:
        cluster.create_topic()  # until a put is OK: the slave has linked again
    assert "broker-a" in cluster.send()
    cluster.read_all()
    assert Counter(cluster.seen) == Counter(cluster.sent), "lost or repeated"
    for each in cluster.servers():
        assert "Traceback" not in each.log_text()
