"""Apache Kafka as a peer in benchmarks: a leader and a follower, fetched by Maven, and Kafka's own load generator.

The leader is the controller as well (KRaft). Its topic has one partition, so that a request holds one batch: with
more, a producer that doesn't batch still puts a message of each partition into one request.
"""

from __future__ import annotations

import functools
import re
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.mavenjars import MavenJars
from testbed.processes import ServerProcess, Setting, free_port, wait_until, write_conf

VERSION = "3.9.1"
JARS = MavenJars("Kafka", "org.apache.kafka", ("kafka_2.13", "kafka-tools"), VERSION)
TOPIC = "bench"
CLUSTER_ID = "hatwistedBenchmarkPair"  # 16 bytes as base64
TOOL_SECONDS = 120
_SENT = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec .* ([\d.]+) ms max latency, (\d+) ms 50th, .* (\d+) ms 99th"
)


@functools.cache
def available() -> str | None:
    """None if Kafka can run here, else the reason why not. Fetches it the first time."""
    return JARS.missing()


class KafkaFailed(Exception):
    """A tool of Kafka's ended with an error; the message is what it said."""


@dataclass(frozen=True)
class Sent:
    """What a run of Kafka's producer told: records, records a second, ms."""

    records: int
    rate: float
    p50_ms: float
    p99_ms: float
    max_ms: float


class KafkaPair:
    """Both brokers' processes and logs under `folder`.

    - folder: made by `start`
    - java_options: of the brokers
    """

    def __init__(self, folder: Path, java_options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.ports = [free_port(), free_port()]
        self._controller_port = free_port()
        self._java_options = tuple(java_options)
        self.leader, self.follower = (self._broker(number) for number in (1, 2))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self.follower, self.leader):
            if server.running:
                server.kill()

    def start(self) -> None:
        """Both, with an empty topic that both have."""
        self.start_leader()
        self._format(2)
        self.follower.start()
        topic = ("--topic", TOPIC, "--bootstrap-server", self.address)
        command = "org.apache.kafka.tools.TopicCommand"
        # The first of a partition's replicas is its leader.
        self._tool(command, "--create", *topic, "--replica-assignment", "1:2")
        wait_until(
            lambda: re.search(r"Isr: 1,2\b", self._tool(command, "--describe", *topic)),
            TOOL_SECONDS,
            "Kafka's follower is in sync",
        )

    def start_leader(self) -> None:
        """That one alone, without a topic."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._format(1)
        self.leader.start()

    def create(self, topic: str, partitions: int) -> None:
        """A topic that the leader alone has."""
        self._tool(
            *("org.apache.kafka.tools.TopicCommand", "--create", "--bootstrap-server", self.address),
            *("--topic", topic, "--config", "min.insync.replicas=1"),
            *("--replica-assignment", ",".join("1" * partitions)),
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def produce(self, records: int, size: int, settings: dict[str, Setting]) -> Sent:
        """Send with one producer, as fast as it can.

        - records, size: how many, and bytes of each
        - settings: of the producer
        """
        properties = {"bootstrap.servers": self.address, **settings}
        said = self._tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", TOPIC, "--num-records", str(records), "--record-size", str(size)),
            *("--throughput", "-1", "--producer-props"),
            *(f"{name}={value}" for name, value in properties.items()),
        )
        found = _SENT.search(said.strip().splitlines()[-1])
        if found is None or int(found[1]) != records:
            raise KafkaFailed(f"the producer said: {said[-300:]}")
        return Sent(records, float(found[2]), float(found[4]), float(found[5]), float(found[3]))

    def _format(self, number: int) -> None:
        conf = write_conf(self._conf(number), self._settings(number))
        self._tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(conf))

    def _conf(self, number: int) -> Path:
        return self.folder / f"kafka-{number}.properties"

    def _settings(self, number: int) -> dict[str, Setting]:
        port, controller = self.ports[number - 1], self._controller_port
        settings: dict[str, Setting] = {
            "node.id": number,
            "process.roles": "broker,controller" if number == 1 else "broker",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": self.folder / f"log-{number}",
            "min.insync.replicas": 2,
            "offsets.topic.replication.factor": 1,
        }
        if number == 1:
            settings["listeners"] = f"{settings['listeners']},CONTROLLER://127.0.0.1:{controller}"
            settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
        return settings

    def _broker(self, number: int) -> ServerProcess:
        argv = ["java", *self._java_options, *self._classes(), "kafka.Kafka", str(self._conf(number))]
        return ServerProcess(f"kafka-{number}", argv, self.folder, self.ports[number - 1], _accepts)

    def _classes(self) -> list[str]:
        return ["-cp", f"{JARS.install()}/*"]

    def _tool(self, *words: str) -> str:
        done = subprocess.run(
            ["java", *self._classes(), *words], capture_output=True, text=True, timeout=10 * TOOL_SECONDS
        )
        if done.returncode:
            raise KafkaFailed(f"{words[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
        return done.stdout


def _accepts(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), 10.0).close()
