"""A name server, a master and a slave as real processes on one set of settings, each ours or RocketMQ's.

    with BrokerGroup(folder, master=OURS, slave=JAVA) as group:
        group.start()
        ...

The same code runs every combination, the all-Java one included, which is the control: a test that fails there
is wrong itself.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed import javarocketmq
from testbed.processes import (
    BROKER_CLUSTER_INFO,
    BROKER_PORTS,
    ServerProcess,
    Setting,
    free_port,
    twistd,
    wait_until,
    write_conf,
)
from testbed.remotingclient import RemotingClient, RemotingFailure

LINK_SECONDS = 120.0  # a Java slave retries every 5 s and first reports 1-2 s after that
CATCH_UP_SECONDS = 120.0

# Small files, so that a few seconds of load cross many file ends; a short heartbeat, because RocketMQ's slave
# reports for the first time only one heartbeat interval after it connected; a long wait for slaves, because they
# may be on a machine that stands still for some seconds: tests that want to see them missed set a shorter one. A
# disk that is fuller than 75 % is the machine's affair.
# The last four are RocketMQ's: it refuses what has waited longer in its queues, by default 200 ms for sends.
SMALL_STORE: Mapping[str, Setting] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20 * 1000,
    "maxHashSlotNum": 5000,
    "maxIndexNum": 20000,
    "haSendHeartbeatInterval": 1000,
    "slaveTimeout": 15_000,
    "deleteWhen": "04",
    "fileReservedTime": 48,
    # However full the machine's disk is, at whatever hour: what is stored stays.
    "diskMaxUsedSpaceRatio": 95,
    "cleanFileForciblyEnable": False,
    "waitTimeMillsInSendQueue": 20_000,
    "waitTimeMillsInPullQueue": 20_000,
    "waitTimeMillsInTransactionQueue": 20_000,
    "osPageCacheBusyTimeOutMills": 20_000,
}


QUICK_SYNC: Mapping[str, Setting] = {"slaveSyncFirstDelay": 500, "slaveSyncInterval": 1000}
"""ms: a slave of ours takes its master's tables so often; RocketMQ's own every 10 s, whatever its file says."""


class Kind(enum.Enum):
    OURS = "ours"
    JAVA = "java"


OURS, JAVA = Kind.OURS, Kind.JAVA


@dataclass
class BrokerGroup:
    """Processes and stores of one broker group under `folder`. Settings are RocketMQ's property names."""

    folder: Path
    master_kind: Kind = OURS
    slave_kind: Kind = OURS
    namesrv_kind: Kind | None = None  # None: no name server, the slave is given the HA address
    role: str = "SYNC_MASTER"
    settings: Mapping[str, Setting] = field(default_factory=lambda: SMALL_STORE)
    slave_settings: Mapping[str, Setting] = field(default_factory=dict)
    link_port: int | None = None  # the slave dials this instead of the master's HA port
    java_options: tuple[str, ...] = javarocketmq.TEST_JVM
    name: str = "broker-a"
    namesrv_settings: Mapping[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.namesrv_port = free_port()
        self.master_port = free_port(BROKER_PORTS)
        self.slave_port = free_port(BROKER_PORTS)
        self.master_store = self.folder / "master-store"
        self.slave_store = self.folder / "slave-store"
        self.namesrv = self._make_namesrv() if self.namesrv_kind else None
        self._master: ServerProcess | None = None
        self._slave: ServerProcess | None = None

    @property
    def master(self) -> ServerProcess:
        if self._master is None:
            self._master = self._make_broker(self.master_kind, "master", self.master_settings())
        return self._master

    @property
    def slave(self) -> ServerProcess:
        if self._slave is None:
            self._slave = self._make_broker(self.slave_kind, "slave", self.full_slave_settings())
        return self._slave

    @property
    def ha_port(self) -> int:
        return self.master_port + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self._slave, self._master, self.namesrv):
            if server is not None and server.running:
                server.kill()

    def start(self) -> None:
        """All of them, the link up (a message put with PUT_OK by a SYNC_MASTER, or copied), and both known to the
        name server."""
        if self.namesrv is not None:
            self.namesrv.start()
        self.master.start()
        self.slave.start()
        self.wait_linked()
        if self.namesrv is not None:
            self.wait_registered(self.master_port, self.slave_port)

    def stop(self) -> None:
        """Orderly stop of all."""
        for server in (self._slave, self._master, self.namesrv):
            if server is not None and server.running:
                server.stop()

    def master_client(self, timeout: float = 30.0) -> RemotingClient:
        return RemotingClient("127.0.0.1", self.master_port, timeout)

    def slave_client(self, timeout: float = 30.0) -> RemotingClient:
        return RemotingClient("127.0.0.1", self.slave_port, timeout)

    def master_end(self) -> int:
        with self.master_client() as client:
            return log_end_in(client.runtime_info())

    def slave_end(self) -> int:
        with self.slave_client() as client:
            return log_end_in(client.runtime_info())

    def wait_linked(self, seconds: float = LINK_SECONDS) -> None:
        """Until a put reaches the slave while it is looked at."""

        def copied() -> bool:
            with self.master_client() as client:
                result = client.send("Probe", b"probe", 0, {"KEYS": "probe"})
            if self.role == "SYNC_MASTER":
                return result.code == 0
            return result.code == 0 and self.slave_end() > result.physical

        wait_until(copied, seconds, "the slave has a fresh message")

    def wait_registered(self, *ports: int) -> None:
        """Until the name server knows the brokers on these ports: they tell it a moment after they answer."""

        def known() -> bool:
            with RemotingClient("127.0.0.1", self.namesrv_port) as client:
                told = client.call(BROKER_CLUSTER_INFO).body
            # RocketMQ's is no JSON: its keys are numbers.
            return all(f':{port}"'.encode() in told for port in ports)

        wait_until(known, LINK_SECONDS, f"the name server knows the brokers on {ports}")

    def wait_caught_up(self, seconds: float = CATCH_UP_SECONDS) -> int:
        """Until the slave has all that the master has (and its queues too); returns the common end."""
        wait_until(self._is_caught_up, seconds, "the slave has caught up")
        return self.master_end()

    def _is_caught_up(self) -> bool:
        try:
            with self.master_client() as master, self.slave_client() as slave:
                infos = [master.runtime_info(), slave.runtime_info()]
        except (OSError, RemotingFailure):
            return False
        ends = {info["commitLogMaxOffset"] for info in infos}
        return len(ends) == 1 and all(info["dispatchBehindBytes"] == "0" for info in infos)

    def swap_master(self, kind: Kind) -> None:
        """Stop the master and go on with one of another kind: same conf file, ports and store."""
        self.master.stop()
        self.use_master(kind)
        self.master.start()

    def use_master(self, kind: Kind) -> None:
        """From its next start on the master is of this kind."""
        self.master_kind, self._master = kind, None

    def swap_slave(self, kind: Kind) -> None:
        """Likewise for the slave."""
        self.slave.stop()
        self.slave_kind, self._slave = kind, None
        self.slave.start()

    # Settings --------------------------------------------------------------------------------------

    def master_settings(self) -> dict[str, Setting]:
        return self._common(self.master_port, self.master_store) | {"brokerId": 0, "brokerRole": self.role}

    def full_slave_settings(self) -> dict[str, Setting]:
        own: dict[str, Setting] = {"brokerId": 1, "brokerRole": "SLAVE"}
        if self.link_port or self.namesrv is None:
            own["haMasterAddress"] = f"127.0.0.1:{self.link_port or self.ha_port}"
        return self._common(self.slave_port, self.slave_store) | own | dict(self.slave_settings)

    def _common(self, port: int, store: Path) -> dict[str, Setting]:
        own: dict[str, Setting] = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": self.name,
            "flushDiskType": "ASYNC_FLUSH",
            "listenPort": port,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
        }
        if self.namesrv is not None:
            own["namesrvAddr"] = f"127.0.0.1:{self.namesrv_port}"
        else:
            own["embeddedNamesrv"] = "false"  # ours alone; RocketMQ ignores unknown keys
        return own | dict(self.settings)

    def _make_namesrv(self) -> ServerProcess:
        if self.namesrv_kind is JAVA:
            return javarocketmq.namesrv("namesrv", self.folder, self.namesrv_port, self.java_options)
        settings = {"listenPort": self.namesrv_port, **self.namesrv_settings}
        conf = write_conf(self.folder / "namesrv.conf", settings)
        return twistd("hanamesrv", "namesrv", self.folder, conf, self.namesrv_port)

    def _make_broker(self, kind: Kind, which: str, settings: Mapping[str, Setting]) -> ServerProcess:
        if kind is JAVA:
            return javarocketmq.broker(which, self.folder, settings, self.java_options)
        conf = write_conf(self.folder / f"{which}.conf", settings)
        command = "haslave" if settings["brokerRole"] == "SLAVE" else "hamaster"
        return twistd(command, which, self.folder, conf, int(str(settings["listenPort"])))


def info_of(port: int) -> dict[str, str]:
    """The runtime info of the broker on a port."""
    with RemotingClient("127.0.0.1", port) as client:
        return client.runtime_info()


def wait_dispatched(client: RemotingClient, seconds: float) -> None:
    """Until queues and index of the broker have all that its log has: they follow it a moment later."""
    wait_until(
        lambda: client.runtime_info()["dispatchBehindBytes"] == "0",
        seconds,
        "queues and index have all that the log has",
    )


def log_end_of(port: int) -> int:
    """commitLogMaxOffset of the broker on a port."""
    return log_end_in(info_of(port))


def log_end_in(info: Mapping[str, str]) -> int:
    """The same from a runtime info."""
    return int(info["commitLogMaxOffset"])
