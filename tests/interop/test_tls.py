"""TLS: RocketMQ's own clients and mqadmin against servers of ours that speak nothing else, and our clients, the
command line and the Spark source's reader against both."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from hatwisted import aio, blocking
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.api import ClientError, Message, Tls
from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, BrokerGroup, Kind
from testbed.processes import REPOSITORY, ServerProcess, Setting, twistd, wait_until, write_conf
from tests.interop.conftest import needs
from tests.support import javaclient
from tests.support.certificate import Issued, authority, server_certificate
from tests.support.javaclient import JavaClient
from tests.support.patientprogram import PATIENT

TOPIC = "Orders"
SECONDS = 120.0


def listens(port: int) -> None:
    """A probe that says nothing: these ports answer nobody who doesn't speak TLS."""
    with closing(socket.create_connection(("127.0.0.1", port), 1)):
        pass


class TlsGroup:
    """A name server and a master, whose ports are `enforcing`, and the files of their certificates."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder = folder
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
        }
        group = BrokerGroup(folder, namesrv_kind=OURS)
        settings = group.master_settings() | {"brokerRole": "ASYNC_MASTER"}
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
            javarocketmq.namesrv("namesrv", self.folder, group.namesrv_port, jvm),
            javarocketmq.broker("master", self.folder, settings, jvm),
        ]

    def trusting(self, whom: str = "authority") -> Tls:
        return Tls(trust_file=str(self.folder / f"{whom}.pem"))

    def cli(self, *words: str, trust: str = "authority", given: str = "") -> subprocess.CompletedProcess[str]:
        properties = self.folder / "client.properties"
        properties.write_text(f"tls.client.trustCertPath={self.folder / f'{trust}.pem'}\n")
        command = [*PATIENT, *words, "-n", self.names, "--tls"]
        environment = {
            **os.environ,
            "HATWISTED_TLS_PROPERTIES": str(properties),
            "PYTHONPATH": str(REPOSITORY),
        }
        return subprocess.run(
            command, env=environment, input=given, capture_output=True, text=True, timeout=120
        )


@pytest.fixture(scope="module", params=[OURS, JAVA], ids=lambda kind: kind.value)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsGroup]:
    kind: Kind = request.param
    needs(kind)
    made = TlsGroup(tmp_path_factory.mktemp("tls"), kind)
    with ExitStack() as stack:
        for server in made.servers:
            server.probe = listens
            stack.callback(lambda server=server: server.running and server.kill())  # type: ignore[misc]
            server.start()
        # The master may register some seconds after its port is open.
        wait_until(lambda: made.cli("topic", "create", TOPIC).returncode == 0, SECONDS, "the topic is there")
        wait_until(lambda: TOPIC in made.cli("topic", "list").stdout, SECONDS, "it is known")
        yield made
        for server in made.servers:
            assert "Traceback" not in server.log_text()


def test_our_clients_send_over_tls(group: TlsGroup) -> None:
    settings = ClusterSettings(name_servers=(group.names,), tls=group.trusting())
    with blocking.Cluster(settings) as cluster:
        cluster.producer("p").send(Message(topic=TOPIC, body=b"blocking"))

    async def story() -> None:
        async with aio.Cluster(group.names, tls=group.trusting()) as cluster:
            await cluster.producer("p").send(Message(topic=TOPIC, body=b"asyncio"))

    asyncio.run(story())
    sent = group.cli("produce", TOPIC, given="twisted")
    assert sent.returncode == 0, sent.stderr
    got = group.cli("consume", TOPIC, "--from", "first", "-c", "3")
    assert set(got.stdout.split()) == {"blocking", "asyncio", "twisted"}, got.stderr


def test_a_stranger_s_authority_and_plain_bytes_are_refused(group: TlsGroup) -> None:
    refused = group.cli("topic", "list", trust="stranger")
    assert refused.returncode == 2
    assert "name its authority in the trust file" in refused.stderr

    async def story(tls: Tls | None) -> None:
        async with aio.Cluster(group.names, tls=tls) as cluster:
            await cluster.producer("p").send(Message(topic=TOPIC, body=b"no"))

    with pytest.raises(ClientError, match="its certificate isn't accepted"):
        asyncio.run(story(group.trusting("stranger")))
    with pytest.raises(ClientError):
        asyncio.run(story(None))


@pytest.mark.parametrize("version", javaclient.VERSIONS)
def test_rocketmqs_clients(group: TlsGroup, version: str, tmp_path: Path) -> None:
    """Their check of certificates is on; with it off, or without TLS, RocketMQ's own tests would pass anything."""
    if "hanamesrv" not in group.servers[0].argv:
        pytest.skip("RocketMQ's clients with its own servers are RocketMQ's business")
    if reason := javaclient.unavailable(version):
        pytest.skip(f"RocketMQ's client {version} can't run here: {reason}")

    def options(whom: str) -> tuple[str, ...]:
        trust = group.folder / f"{whom}.pem"
        return (
            *("-Dtls.enable=true", "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true"),
            f"-Dtls.client.trustCertPath={trust}",
        )

    with JavaClient(version, "Producer", tmp_path, group.names, options=options("authority")) as producer:
        producer.tell("sync", TOPIC, version, 3)
        assert [event[1] for event in producer.events("sent")] == ["SEND_OK"] * 3
    with JavaClient(version, "Mqadmin", tmp_path, options=options("authority")) as mqadmin:
        mqadmin.tell("run", "clusterList", "-n", group.names)
        assert any("broker-a" in event[0] for event in mqadmin.events("printed") if event)
    if version == javaclient.VERSIONS[0]:
        with JavaClient(version, "Mqadmin", tmp_path, options=options("stranger")) as stranger:
            stranger.tell("run", "clusterList", "-n", group.names)
            assert not any("broker-a" in event[0] for event in stranger.events("printed") if event)
