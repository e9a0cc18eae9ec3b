"""A name server and a master that speak nothing but TLS, ours or RocketMQ's."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from hatwisted.clientcore.api import Tls
from testbed import javarocketmq
from testbed.brokergroup import OURS, BrokerGroup, Kind
from testbed.processes import REPOSITORY, ServerProcess, Setting, twistd, wait_until, write_conf
from tests.support.certificate import Issued, authority, server_certificate
from tests.support.patientprogram import PATIENT

SECONDS = 120.0


def listens(port: int) -> None:
    """A probe that says nothing: these ports answer nobody who doesn't speak TLS."""
    with closing(socket.create_connection(("127.0.0.1", port), 1)):
        pass


class TlsGroup:
    """A name server and a master, whose ports are `enforcing`, and the files of their certificates.

    - folder: of all files
    - kind: who has made the servers
    - version: of RocketMQ's servers
    - both: further settings of both; of_master: of the master alone
    - client: further TLS properties of the command line
    """

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        version: str = javarocketmq.VERSION,
        both: Mapping[str, Setting] | None = None,
        of_master: Mapping[str, Setting] | None = None,
        client: Mapping[str, Setting] | None = None,
    ) -> None:
        self.folder = folder
        self.version = version
        self._client = client or {}
        server_certificate().write(folder, "server")
        authority().write(folder, "authority")
        Issued(("stranger",), authority=True).write(folder, "stranger")
        self.tls: dict[str, Setting] = {
            "tls.server.mode": "enforcing",
            "tls.test.mode.enable": "false",
            "tls.server.certPath": folder / "server.pem",
            "tls.server.keyPath": folder / "server.key",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": folder / "authority.pem",
            **(both or {}),
        }
        group = BrokerGroup(folder, namesrv_kind=OURS)
        settings = group.master_settings() | {"brokerRole": "ASYNC_MASTER"} | (of_master or {})
        self.names = f"127.0.0.1:{group.namesrv_port}"
        self.servers = self._ours(group, settings) if kind is OURS else self._java(group, settings)

    def _ours(self, group: BrokerGroup, settings: dict[str, Setting]) -> list[ServerProcess]:
        conf = write_conf(self.folder / "names.conf", {"listenPort": group.namesrv_port} | self.tls)
        master = write_conf(self.folder / "master.conf", settings | self.tls)
        return [
            twistd("hanamesrv", "namesrv", self.folder, conf, group.namesrv_port),
            twistd("hamaster", "master", self.folder, master, group.master_port),
        ]

    def _java(self, group: BrokerGroup, settings: dict[str, Setting]) -> list[ServerProcess]:
        jvm = [option for option in javarocketmq.TEST_JVM if "tls" not in option]
        jvm += [f"-D{name}={value}" for name, value in self.tls.items()]
        return [
            javarocketmq.namesrv("namesrv", self.folder, group.namesrv_port, jvm, self.version),
            javarocketmq.broker("master", self.folder, settings, jvm, self.version),
        ]

    def trusting(self, whom: str = "authority") -> Tls:
        return Tls(trust_file=str(self.folder / f"{whom}.pem"))

    def cli(self, *words: str, trust: str = "authority", given: str = "") -> subprocess.CompletedProcess[str]:
        properties = self.folder / "client.properties"
        write_conf(properties, {"tls.client.trustCertPath": self.folder / f"{trust}.pem"} | self._client)
        command = [*PATIENT, *words, "-n", self.names, "--tls"]
        environment = {
            **os.environ,
            "HATWISTED_TLS_PROPERTIES": str(properties),
            "PYTHONPATH": str(REPOSITORY),
        }
        return subprocess.run(
            command, env=environment, input=given, capture_output=True, text=True, timeout=120
        )

    @contextmanager
    def running(self, topic: str) -> Iterator[None]:
        """Both servers run, and the name server knows this topic. At the end their logs have no traceback."""
        with ExitStack() as stack:
            for server in self.servers:
                server.probe = listens
                stack.callback(lambda server=server: server.running and server.kill())  # type: ignore[misc]
                server.start()
            # The master may register some seconds after its port is open.
            wait_until(
                lambda: self.cli("topic", "create", topic).returncode == 0, SECONDS, "the topic is there"
            )
            wait_until(lambda: topic in self.cli("topic", "list").stdout, SECONDS, "it is known")
            yield
            for server in self.servers:
                assert "Traceback" not in server.log_text()
