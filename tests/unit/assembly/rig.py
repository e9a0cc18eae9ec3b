"""Whole nodes on one clock, a network in memory and folders of the test: no socket, no process."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.parts import Parts
from hatwisted.config.schema import BrokerConfig, BrokerRole
from hatwisted.remoting.client import RemotingClient
from hatwisted.store.filesystem import PosixFileSystem
from hatwisted.store.put import Put
from hatwisted.store.worker import InlineWorker
from hatwisted.wire.properties import encode_properties
from tests.support.memorynet import MemoryNetwork

NOW = 1_795_221_957.0
HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
STEP = 0.25
NAME_SERVER = "10.0.0.9"


class NodeCase(SynchronousTestCase):
    """Verbs: `config` and `parts` for what builds nodes, `put`, `pass_time`, `stop`."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(NOW)
        self.network = MemoryNetwork(self.clock)
        self.folder = Path(self.mktemp()).absolute()

    def parts(self, host: str) -> Parts:
        network = self.network.host(host)
        return Parts(
            clock=self.clock,
            local_time=lambda seconds: datetime.fromtimestamp(seconds, UTC),
            file_system=PosixFileSystem(),
            make_worker=lambda name, threads: InlineWorker(),
            listening=network,
            connecting=network,
            resolve=lambda name: b"\x7f\0\0\x01",
            random=Random(1),
            memory_bytes=8 << 30,
        )

    def config(self, host: str, role: BrokerRole, **more: object) -> BrokerConfig:
        root = self.folder / host
        return BrokerConfig(
            broker_name="broker-a",
            broker_role=role,
            broker_ip1=host,
            broker_ip2=host,
            namesrv_addr=f"{NAME_SERVER}:9876",
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=1 << 20,
            mapped_file_size_consume_queue=20 * 1000,
            message_index_enable=False,
            message_delay_level="1s",
            **more,  # type: ignore[arg-type]
        )

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP)):
            self.clock.advance(STEP)

    def put(self, broker: Any, topic: str, properties: dict[str, str] | None = None) -> None:
        encoded = encode_properties(properties or {})
        put = Put(topic, 0, ((0, b"body", encoded),), HOST, int(self.clock.seconds() * 1000))
        broker.store.append([put])
        self.assertGreaterEqual(put.end, 0, put.reason)

    def stop(self, *services: Any) -> None:
        for service in services:
            stopping = service.close() if isinstance(service, RemotingClient) else service.stopService()
            self.pass_time(20)
            if stopping is not None:
                self.successResultOf(stopping)
