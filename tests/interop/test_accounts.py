"""Accounts of ACL 1.0: RocketMQ's own clients and mqadmin, with the right key, the wrong one and none, against our
pair and, with the same expectations, against a RocketMQ 4.9.7 broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, SMALL_STORE, BrokerGroup, Kind
from testbed.processes import wait_until
from testbed.remotingclient import any_answer
from testbed.storefiles import read_log
from tests.interop.conftest import SERVERS, needs
from tests.support import javaclient
from tests.support.clientprogram import ClientFailed
from tests.support.clusterclient import route_of
from tests.support.javaclient import JavaClient

TOPIC, OTHER, GROUP, COUNT, SECONDS = "Open", "Closed", "readers", 4, 60.0
ACCOUNTS = f"""\
accounts:
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
- accessKey: clients
  secretKey: secret-of-clients
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - {TOPIC}=PUB|SUB
  - {OTHER}=DENY
  groupPerms:
  - {GROUP}=SUB
  - java-producer=SUB
"""
TOOLS = "accessKey: {}\nsecretKey: {}\n"
VERSION = "4.9.7"
Run = Callable[..., str]


@pytest.fixture(scope="module", params=SERVERS, ids=lambda kind: kind.value)
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    kind: Kind = request.param
    needs(kind)
    for version in javaclient.VERSIONS:
        if reason := javaclient.unavailable(version):
            pytest.skip(f"RocketMQ's client {version} can't run here: {reason}")
    folder = tmp_path_factory.mktemp("accounts")
    conf = folder / "master-home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    settings = SMALL_STORE | {"aclEnable": True, "brokerFastFailureEnable": False}
    role, slave = "ASYNC_MASTER", {}
    if kind is OURS:
        (folder / "tools.yml").write_text(TOOLS.format("operator", "secret-of-operator"))
        settings = settings | {"rocketmqHome": conf.parent}
        role, slave = "SYNC_MASTER", {"credentialsFile": folder / "tools.yml"}
    with BrokerGroup(
        folder, kind, kind, namesrv_kind=kind, role=role, settings=settings, slave_settings=slave
    ) as pair:
        assert pair.namesrv is not None
        pair.namesrv.start()
        brokers = [pair.master, pair.slave] if kind is OURS else [pair.master]
        for broker in brokers:
            broker.probe = any_answer
            broker.start()
        yield pair
        pair.stop()
        for broker in brokers:
            assert "Traceback" not in broker.log_text()
            assert "secret-of" not in broker.log_text()


@pytest.fixture(scope="module")
def servers(group: BrokerGroup) -> str:
    return f"127.0.0.1:{group.namesrv_port}"


@pytest.fixture(scope="module")
def mqadmin(group: BrokerGroup, servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """mqadmin(account, words of a command line) -> what it prints."""
    folder = tmp_path_factory.mktemp("mqadmin")
    tools = folder / f"Mqadmin-{VERSION}-home" / "conf" / "tools.yml"
    tools.parent.mkdir(parents=True)
    with JavaClient(VERSION, "Mqadmin", folder) as program:

        def run(account: str | None, *words: object) -> str:
            tools.write_text("" if account is None else TOOLS.format(account, f"secret-of-{account}"))
            program.forget()
            program.tell("run", *words, "-n", servers)
            return "\n".join(event[0] if event else "" for event in program.events("printed"))

        for topic in (TOPIC, OTHER):
            at = f"127.0.0.1:{group.master_port}"
            assert "success" in run("operator", "updateTopic", "-b", at, "-t", topic, "-r", 4, "-w", 4)
            wait_until(lambda topic=topic: route_of(group.namesrv_port, topic), SECONDS, "a route")  # type: ignore[misc]
        yield run


def account(name: str, secret: str | None = None) -> tuple[str]:
    return (f"-Daccount={name}:{secret or f'secret-of-{name}'}",)


def has_message(printed: str) -> bool:
    """Does a table of messages have one? Its id is hexadecimal digits, 32 or more."""
    return re.search(r"^[0-9A-F]{32,}\b", printed, re.MULTILINE) is not None


def test_mqadmin_is_let_in_by_its_account(group: BrokerGroup, mqadmin: Run) -> None:
    at = f"127.0.0.1:{group.master_port}"
    sent = mqadmin("clients", "sendMessage", "-t", TOPIC, "-p", "x", "-k", "key1")
    assert "SEND_OK" in sent or "SLAVE_NOT_AVAILABLE" in sent  # the slave may still be on its way
    assert "No accessKey is configured" in mqadmin(None, "brokerStatus", "-b", at)
    assert "No acl config for nobody7" in mqadmin("nobody7", "brokerStatus", "-b", at)
    assert "Need admin permission for request code=17" in mqadmin(
        "clients", "updateTopic", "-b", at, "-t", "T", "-r", 4, "-w", 4
    )
    if group.master_kind is OURS:
        # RocketMQ's own broker refuses its client's signature here: it leaves one signed field out.
        assert not has_message(mqadmin("clients", "queryMsgByKey", "-t", OTHER, "-k", "key1"))
        query = ("clients", "queryMsgByKey", "-t", TOPIC, "-k", "key1")
        wait_until(lambda: has_message(mqadmin(*query)), SECONDS, "the message is found by its key")


def test_mqadmin_changes_accounts(group: BrokerGroup, mqadmin: Run) -> None:
    at = f"127.0.0.1:{group.master_port}"
    changes = ("-a", "newcomer", "-s", "secret-of-newcomer", "-i", "DENY", "-t", f"{OTHER}=PUB")
    assert "success" in mqadmin("operator", "updateAclConfig", "-b", at, *changes)
    assert "bootTimestamp" in mqadmin("newcomer", "brokerStatus", "-b", at)
    version = mqadmin("operator", "clusterAclConfigVersion", "-b", at)
    assert "plain_acl.yml" in version
    shown = mqadmin("operator", "getAclConfig", "-b", at)
    assert "newcomer" in shown and f"{OTHER}=PUB" in shown
    assert "success" in mqadmin("operator", "deleteAclConfig", "-b", at, "-a", "newcomer")
    assert "No acl config for newcomer" in mqadmin("newcomer", "brokerStatus", "-b", at)
    assert "success" in mqadmin("operator", "updateGlobalWhiteAddr", "-b", at, "-g", "10.0.0.7")
    text = (group.folder / "master-home" / "conf" / "plain_acl.yml").read_text()
    assert "10.0.0.7" in text and "newcomer" not in text and "secret-of-clients" in text


def exchange(producer: JavaClient, consumer: JavaClient, version: str, ways: Sequence[str]) -> None:
    """Sent in these ways, committed, and sent back: all of it comes, and what was sent back again.

    - producer, consumer: Java's
    - version: theirs, which the bodies begin with
    - ways: of sending
    """
    consumer.tell("start", "c", GROUP, TOPIC, "*", "CLUSTERING")
    for how in ways:
        producer.tell(how, TOPIC, f"{version}-{how}", COUNT)
    producer.tell("transaction", TOPIC, f"{version}-half", "COMMIT_MESSAGE")
    producer.tell("sync", TOPIC, f"bad-{version}", 1)

    def seen(*, again: bool = False) -> int:
        """Bodies of this version that came, or that came again."""
        prefix = f"bad-{version}" if again else version
        got = (event for event in consumer.events("got") if event[1].startswith(prefix))
        return len({event[1] for event in got if not again or event[5] != "0"})

    wait_until(lambda: seen() == len(ways) * COUNT + 1, SECONDS, "all that was sent has come")
    wait_until(lambda: seen(again=True) == 1, SECONDS, "what was sent back comes again")


@pytest.mark.parametrize("version", javaclient.VERSIONS)
def test_clients_with_an_account(
    group: BrokerGroup, servers: str, mqadmin: Run, version: str, tmp_path: Path
) -> None:
    options = account("clients")
    with (
        JavaClient(version, "Producer", tmp_path, servers, options=options) as producer,
        JavaClient(version, "PushConsumer", tmp_path, servers, str(tmp_path), options=options) as consumer,
    ):
        exchange(producer, consumer, version, ("sync", "async", "batch", "ordered"))
        with pytest.raises(ClientFailed, match="No default permission for topic:" + OTHER):
            producer.tell("sync", OTHER, "x", 1)


def test_clients_with_a_wrong_key(servers: str, mqadmin: Run, tmp_path: Path) -> None:
    wrong = account("clients", "not-the-secret")
    with JavaClient(VERSION, "Producer", tmp_path, servers, options=wrong) as producer:
        for how in ("sync", "batch"):
            with pytest.raises(ClientFailed, match="Check signature failed for accessKey=clients"):
                producer.tell(how, TOPIC, "never", COUNT)


def test_the_slave_has_what_accounts_have_sent(group: BrokerGroup, mqadmin: Run) -> None:
    if group.master_kind is not OURS:
        pytest.skip("a RocketMQ slave has no account: its address must be listed, and here all have one")
    stored = [each.body for each in read_log(group.slave_store)]
    assert b"x" in stored and not any(body.startswith(b"never") for body in stored)
    assert "success" in mqadmin(
        "operator", "updateTopic", "-b", f"127.0.0.1:{group.master_port}", "-t", "Late"
    )
    topics = group.slave_store / "config" / "topics.json"
    wait_until(lambda: '"Late"' in topics.read_text(), SECONDS, "the slave's table has the topic")
