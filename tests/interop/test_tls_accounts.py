"""RocketMQ's own clients and mqadmin where everything is closed: TLS alone, certificates on both sides, and
accounts of both servers. Our client and command line are there in the hardening page's test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import OURS
from tests.interop.conftest import OLDER, OLDER_VERSION
from tests.interop.test_accounts import ACCOUNTS, GROUP, TOOLS, TOPIC, account, exchange
from tests.support import javaclient
from tests.support.certificate import Issued, authority
from tests.support.clientprogram import ClientFailed
from tests.support.javaclient import JavaClient
from tests.support.tlsgroup import TlsGroup

AT_CLUSTER = ("-c", "DefaultCluster")
LOOKS = (
    ("clusterList",),
    ("topicRoute", "-t", TOPIC),
    ("topicStatus", "-t", TOPIC),
    ("consumerProgress", "-g", GROUP),
    ("clusterAclConfigVersion", *AT_CLUSTER),
)
NO_PROGRESS = "CODE: 206  DESC: Not found the consumer group consume stats"
"""An answer as well: RocketMQ's consumer tells its progress as it ends, and doesn't wait until that has left."""
CHANGE = ("updateTopic", *AT_CLUSTER, "-t", "New", "-r", 4, "-w", 4)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsGroup]:
    for version in javaclient.VERSIONS:
        if reason := javaclient.unavailable(version):
            pytest.skip(f"RocketMQ's client {version} can't run here: {reason}")
    folder = tmp_path_factory.mktemp("closed")
    (folder / "plain_acl.yml").write_text(ACCOUNTS)
    (folder / "operator.yml").write_text(TOOLS.format("operator", "secret-of-operator"))
    Issued(("client",), signed_by=authority()).write(folder, "client")
    shown = {"tls.client.certPath": folder / "client.pem", "tls.client.keyPath": folder / "client.key"}
    asked = {
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": folder / "authority.pem",
        "aclEnable": "true",
        "aclPlainFile": folder / "plain_acl.yml",
    }
    of_master = {"credentialsFile": folder / "operator.yml", **shown}
    made = TlsGroup(folder, OURS, both=asked, of_master=of_master, client=shown)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HATWISTED_CREDENTIALS", str(folder / "operator.yml"))
        with made.running(TOPIC):
            yield made
    for server in made.servers:
        assert "secret-of" not in server.log_text()


def tls(group: TlsGroup, *, certificate: bool = True) -> tuple[str, ...]:
    """A JVM's options; certificate: has it one to show?"""
    client = group.folder / "client"
    shown = (f"-Dtls.client.certPath={client}.pem", f"-Dtls.client.keyPath={client}.key")
    return (
        *("-Dtls.enable=true", "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true"),
        f"-Dtls.client.trustCertPath={group.folder / 'authority.pem'}",
        *(shown if certificate else ()),
    )


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_clients_with_certificate_and_account(group: TlsGroup, version: str, tmp_path: Path) -> None:
    options = tls(group) + account("clients")
    with (
        JavaClient(version, "Producer", tmp_path, group.names, options=options) as producer,
        JavaClient(
            version, "PushConsumer", tmp_path, group.names, str(tmp_path), options=options
        ) as consumer,
    ):
        exchange(producer, consumer, version, ("sync", "batch"))


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_mqadmin_with_certificate_and_account(group: TlsGroup, version: str, tmp_path: Path) -> None:
    tools = tmp_path / f"Mqadmin-{version}-home" / "conf" / "tools.yml"
    tools.parent.mkdir(parents=True)
    tools.write_text((group.folder / "operator.yml").read_text())
    with JavaClient(version, "Mqadmin", tmp_path, options=tls(group)) as program:

        def run(*words: object) -> str:
            program.forget()
            program.tell("run", *words, "-n", group.names)
            return "\n".join(event[0] for event in program.events("printed") if event)

        for words in LOOKS:
            printed = run(*words)
            let_in = "Exception" not in printed or NO_PROGRESS in printed
            assert printed.strip() and let_in, f"{words}: {printed}"
        assert "success" in run(*CHANGE)
        tools.write_text(TOOLS.format("clients", "secret-of-clients"))
        assert "Need admin permission for request code=17" in run(*CHANGE)


def test_a_client_with_a_wrong_key_is_told_no_route(group: TlsGroup, tmp_path: Path) -> None:
    """The name server refuses it, and what RocketMQ's client says of that is that there's no such topic."""
    options = tls(group) + account("clients", "wrong-secret")
    with (
        JavaClient(OLDER, "Producer", tmp_path, group.names, options=options) as producer,
        pytest.raises(ClientFailed, match="No route info of this topic"),
    ):
        producer.tell("sync", TOPIC, "never", 1)
    assert "Check signature failed for accessKey=clients" in group.servers[0].log_text()


def test_a_client_without_a_certificate_gets_nothing(group: TlsGroup, tmp_path: Path) -> None:
    options = tls(group, certificate=False) + account("clients")
    with JavaClient(OLDER, "Mqadmin", tmp_path, options=options) as program:
        program.tell("run", "clusterList", "-n", group.names)
        printed = "\n".join(event[0] for event in program.events("printed") if event)
        assert "broker-a" not in printed, printed
        assert "RemotingSendRequestException" in printed or "RemotingConnectException" in printed, printed
    assert "peer did not return a certificate" in group.servers[0].log_text()
