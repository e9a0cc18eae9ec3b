"""TLS: RocketMQ's own clients and mqadmin against servers of ours that speak nothing else, and our clients, the
command line and the Spark source's reader against both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatwisted import aio, blocking
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.api import ClientError, Message, Tls
from hatwisted.clientcore.errors import BadSetting
from hatwisted.pipeline.spark.rocketmqoptions import cluster_settings, rocketmq_options
from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, Kind
from testbed.processes import wait_until
from tests.interop.conftest import NEWER, OLDER, OLDER_VERSION, SECONDS_OF_A_JVM, needs
from tests.support import javaclient
from tests.support.clustermessages import read_all
from tests.support.javaclient import JavaClient
from tests.support.soak import in_soak
from tests.support.tlsgroup import SECONDS, TlsGroup

TOPIC = "Orders"


@pytest.fixture(
    scope="module",
    params=[(OURS, OLDER), (JAVA, OLDER), in_soak((JAVA, NEWER), why=SECONDS_OF_A_JVM)],
    ids=["ours", "java", f"java-{NEWER}"],
)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsGroup]:
    kind: Kind
    kind, version = request.param
    needs(kind)
    if kind is JAVA and (reason := javarocketmq.available(version)):
        pytest.skip(f"RocketMQ {version} can't run here: {reason}")
    made = TlsGroup(tmp_path_factory.mktemp("tls"), kind, version)
    with made.running(TOPIC):
        yield made


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


def test_the_spark_source_s_reader_reads_over_tls(group: TlsGroup) -> None:
    """What its tasks run in Python's processes, set up by its options; tests/pipeline starts Spark itself."""
    topic = "Pulled"
    assert group.cli("topic", "create", topic).returncode == 0
    wait_until(lambda: topic in group.cli("topic", "list").stdout, SECONDS, "it is known")
    bodies = {f"message {number}".encode() for number in range(20)}
    with blocking.Cluster(ClusterSettings(name_servers=(group.names,), tls=group.trusting())) as cluster:
        producer = cluster.producer("p")
        for body in bodies:
            producer.send(Message(topic=topic, body=body))

    def settings(whom: str) -> ClusterSettings:
        trust = str(group.folder / f"{whom}.pem")
        return cluster_settings(rocketmq_options({"namesrvAddr": group.names, "tlsTrustFile": trust}))

    assert {*read_all(settings("authority"), topic, columns=["body"])["body"].to_pylist()} == bodies
    with pytest.raises(BadSetting, match="certificate isn't accepted"):
        read_all(settings("stranger"), topic)


@pytest.mark.parametrize("version", OLDER_VERSION)
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
    if version == OLDER:
        with JavaClient(version, "Mqadmin", tmp_path, options=options("stranger")) as stranger:
            stranger.tell("run", "clusterList", "-n", group.names)
            assert not any("broker-a" in event[0] for event in stranger.events("printed") if event)
