"""The reader against RocketMQ itself: its name server, master and slave, its accounts and its TLS."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import BadSetting, BrokerGone, NoRoute, Refused
from hatwisted.clientcore.pullprogress import PullTerms
from hatwisted.clientcore.tls import Tls
from hatwisted.pipeline.remote.clusterreader import ClusterReader
from hatwisted.pipeline.remote.queuepull import PullOptions
from hatwisted.pipeline.remote.recordmarks import Mark
from hatwisted.wire.consumerdata import SQL92, TAG
from hatwisted.wire.remoting import RemotingCommand
from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, BrokerGroup
from testbed.processes import ServerProcess, Setting, wait_until
from testbed.remotingclient import (
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE_V2,
    any_answer,
    encode_inner,
    send_fields,
)
from tests.interop.conftest import OLDER_VERSION, needs
from tests.support.certificate import make_certificate
from tests.support.clustermessages import (
    PATIENCE,
    STORED,
    bodies_of,
    fill,
    ranges_of,
    read_all,
    settings_of,
    wait_for_route,
    wait_for_slave,
)

UPDATE_AND_CREATE_TOPIC = 17
END_TRANSACTION = 37
PREPARED, COMMIT = 4, 8
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"


def needs_version(version: str) -> None:
    needs(JAVA)
    if reason := javarocketmq.available(version):
        pytest.skip(reason)


def kill_if_running(server: ServerProcess) -> None:
    if server.running:
        server.kill()


@contextmanager
def java_group(
    folder: Path, version: str, **settings: Setting
) -> Iterator[tuple[BrokerGroup, ServerProcess, ServerProcess]]:
    """(the group's ports and settings, master, slave), with a Java name server of the same version."""
    group = BrokerGroup(folder, namesrv_kind=OURS)
    names = javarocketmq.namesrv("namesrv", folder, group.namesrv_port, version=version)
    master = javarocketmq.broker("master", folder, group.master_settings() | settings, version=version)
    slave = javarocketmq.broker("slave", folder, group.full_slave_settings() | settings, version=version)
    with ExitStack() as stack:
        for server in (names, master, slave):
            stack.callback(kill_if_running, server)
            server.start()
            if server is master:
                create_topic(group, "Orders")
        group.wait_linked(60)
        yield group, master, slave


def create_topic(group: BrokerGroup, topic: str) -> None:
    """Before the slave starts: 5.3.3 slaves were seen to lose queues of topics they hadn't heard of."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
    }
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    with group.master_client() as client:
        client.call(UPDATE_AND_CREATE_TOPIC, fields).expect(0)


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_a_java_cluster(tmp_path: Path, version: str) -> None:
    """Batches, delayed and transactional messages; times; a slave that gives (4.9.7) or refuses (5.3.3); and the
    master killed in the middle."""
    needs_version(version)
    slave_gives = {"slaveReadEnable": True} if version == "5.3.3" else {}
    with java_group(tmp_path, version, enablePropertyFilter=True, **slave_gives) as (group, master, slave):
        wait_for_slave(group, "Orders", 90)  # 5.3.3's asks for topics once a minute
        sent = fill(group, "Orders", 1500, size=700)
        between = check_times(group)
        send_delayed_and_transactional(group)
        group.wait_caught_up(60)
        settings = settings_of(group)
        got = read_all(settings, "Orders")
        assert got["body"].to_pylist() == [body for each in sent for body in each.bodies]
        assert Counter(got["body_crc_ok"].to_pylist()) == {True: 6000}
        assert got["broker"].to_pylist()[:1] == [group.name]
        with ClusterReader(settings) as cluster:
            queues = cluster.queues(["Timed"])
            assert list(cluster.offsets_at(queues, cluster.bounds(queues), between).values()) == [40, 0, 0, 0]
            assert "Orders" in {each.topic for each in cluster.queues(pattern=".*")}
            assert cluster.broker_names() == {group.name}
            check_marks_and_sizes(cluster, got)
        check_filters(group)
        check_delayed_and_transactional(settings)
        wait_for_slave(group, "Orders")
        with ClusterReader(settings_of(group, read_from="master")) as cluster:
            wanted = next(each for each in ranges_of(cluster, "Orders") if each.end)
            pieces = cluster.records(wanted)
            size = len(next(pieces))
            master.kill()
            size += sum(map(len, pieces))
        assert size == sum(got.slice(0, wanted.end)["size"].to_pylist())
        slave.kill()
        with ClusterReader(settings_of(group, retries=1)) as cluster, pytest.raises(BrokerGone):
            list(cluster.records(wanted))


def check_marks_and_sizes(cluster: ClusterReader, got: pa.Table) -> None:
    """Which record is the last of each queue, and how large the last ten are: as those that were pulled say."""
    queues = cluster.queues(["Orders"])
    marks = cluster.marks(queues, dict.fromkeys(queues, 1499))
    sizes = cluster.sizes(queues, dict.fromkeys(queues, (1490, 20)))
    rows = {(row["queue_id"], row["queue_offset"]): row for row in got.drop(["body"]).to_pylist()}
    for queue in queues:
        last = rows[queue.queue_id, 1499]
        stored = round(last["store_timestamp"].timestamp() * 1000)
        assert marks[queue] == Mark(last["physical_offset"], stored)
        assert sizes[queue] == [rows[queue.queue_id, offset]["size"] for offset in range(1490, 1500)]
    assert cluster.marks(queues, dict.fromkeys(queues, 1500)) == dict.fromkeys(queues)


def check_filters(group: BrokerGroup) -> None:
    """Tags and SQL, over more messages than a broker looks at for one pull."""
    with group.master_client() as client:
        for at in range(0, 3000, 50):
            inner = [
                encode_inner(b"%d" % each, f"TAGS\x01t{each % 60}\x02n\x01{each}".encode())
                for each in range(at, at + 50)
            ]
            fields = send_fields("Tagged", 0, {}, batch=True)
            client.call(SEND_BATCH_MESSAGE, fields, b"".join(inner)).expect(*STORED)
    wait_for_route(group, "Tagged")
    with ClusterReader(settings_of(group)) as cluster:
        (wanted,) = [each for each in ranges_of(cluster, "Tagged") if each.end]
        for expression, kind, expected in (
            ("t7 || t8", TAG, [each for each in range(3000) if each % 60 in (7, 8)]),
            ("none", TAG, []),
            ("n BETWEEN 5 AND 2500 AND TAGS = 't9'", SQL92, list(range(9, 2500, 60))),
        ):
            how = PullOptions(terms=PullTerms(expression=expression, expression_type=kind))
            batches = cluster.read(wanted, ["queue_offset"], how=how)
            assert [row for each in batches for row in each["queue_offset"].to_pylist()] == expected


def check_times(group: BrokerGroup) -> int:
    """40 messages, a time (ms), and ten more."""
    between = 0
    with group.master_client() as client:
        for number in range(50):
            if number == 40:
                time.sleep(0.05)
                between = int(time.time() * 1000)
                time.sleep(0.05)
            assert client.send("Timed", b"%d" % number, 0).code in STORED
    wait_for_route(group, "Timed")
    return between


def send_delayed_and_transactional(group: BrokerGroup) -> None:
    with group.master_client() as client:
        for number in range(20):
            client.send("Later", b"delayed %d" % number, 0, {"DELAY": "1"})
        fields = send_fields("Decided", 0, {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "U"})
        half = client.call(SEND_MESSAGE_V2, fields | {"f": str(PREPARED)}, b"transactional").expect(*STORED)
        client.post(
            END_TRANSACTION,
            {
                "producerGroup": "p",
                "tranStateTableOffset": half.ext["queueOffset"],
                "commitLogOffset": str(int(half.ext["msgId"][-16:], 16)),
                "commitOrRollback": str(COMMIT),
                "fromTransactionCheck": "false",
                "msgId": "U",
                "transactionId": "U",
            },
        )
        wait_until(
            lambda: client.max_queue_offset("Decided", 0) == 1, PATIENCE, "the transaction is committed"
        )
        wait_until(lambda: client.max_queue_offset("Later", 0) == 20, PATIENCE, "the delayed messages arrive")
    for topic in ("Later", "Decided"):
        wait_for_route(group, topic)


def check_delayed_and_transactional(settings: ClusterSettings) -> None:
    columns = ["body", "transaction", "prepared_transaction_offset", "queue_offset"]
    decided = read_all(settings, "Decided", columns=columns).to_pylist()
    assert [(row["body"], row["transaction"]) for row in decided] == [(b"transactional", "commit")]
    assert decided[0]["prepared_transaction_offset"] > 0
    with contextlib.suppress(
        NoRoute
    ):  # before its first check of transactions 4.9.7 doesn't register the topic
        halves = read_all(settings, HALF_TOPIC, columns=columns).to_pylist()
        assert [(row["body"], row["queue_offset"]) for row in halves] == [(b"transactional", 0)]
    arrived = read_all(settings, "Later", columns=["body"])["body"].to_pylist()
    assert sorted(arrived) == sorted(b"delayed %d" % number for number in range(20))
    waited = read_all(settings, "SCHEDULE_TOPIC_XXXX", columns=["body"])["body"].to_pylist()
    assert [body for body in waited if body.startswith(b"delayed")] == [
        b"delayed %d" % each for each in range(20)
    ]


def test_a_slave_that_refuses_pulls(tmp_path: Path) -> None:
    """5.3.3's default."""
    needs_version("5.3.3")
    with java_group(tmp_path, "5.3.3") as (group, _, _):
        sent = fill(group, "Orders", 200, queues=1)
        group.wait_caught_up(60)
        assert read_all(settings_of(group), "Orders", columns=["body"])["body"].to_pylist() == sent[0].bodies


# ---- accounts

ACCOUNT = Credentials("pipeline", "12345678")
PLAIN_ACL = """accounts:
- accessKey: pipeline
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - Orders=PUB|SUB
"""
AUTHENTICATION: dict[str, Setting] = {
    "authenticationEnabled": True,
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "initAuthenticationUser": json.dumps({"username": "pipeline", "password": "12345678"}),
}


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_accounts(tmp_path: Path, version: str) -> None:
    needs_version(version)
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group, ExitStack() as stack:
        assert group.namesrv is not None
        group.namesrv.start()
        settings = group.master_settings() | {"brokerRole": "ASYNC_MASTER"}
        settings |= {"aclEnable": True} if version == "4.9.7" else AUTHENTICATION
        conf = tmp_path / "master-home" / "conf"
        conf.mkdir(parents=True)
        (conf / "plain_acl.yml").write_text(PLAIN_ACL)
        master = javarocketmq.broker("master", tmp_path, settings, version=version)
        master.probe = any_answer
        stack.callback(kill_if_running, master)
        master.start()
        known = settings_of(group, credentials=ACCOUNT, retries=2)
        bodies = bodies_of(0, 10)
        with BlockingDriver(Links(known)) as driver:
            for body in bodies:
                request = RemotingCommand(SEND_MESSAGE_V2, ext=send_fields("Orders", 0, {}), body=body)
                answer = driver.ask(f"127.0.0.1:{group.master_port}", request)
                assert answer.code == 0, answer.remark
        wait_for_route(group, "Orders", 1)
        assert read_all(known, "Orders", columns=["body"])["body"].to_pylist() == bodies
        with ClusterReader(known) as cluster:
            (queue, *_) = queues = cluster.queues(["Orders"])
            assert cluster.marks(queues, {queue: 9})[queue] is not None
            assert cluster.broker_names() == {group.name}
        for stranger in (None, Credentials("pipeline", "87654321"), Credentials("stranger", "12345678")):
            pauses: list[float] = []
            with pytest.raises(Refused, match=f"127.0.0.1:{group.master_port} refuses"):
                read_all(settings_of(group, credentials=stranger), "Orders", sleep=pauses.append)
            assert pauses == []  # told at once: no retry makes an account


# ---- TLS


def test_tls(tmp_path: Path) -> None:
    """A name server and a broker that ask for a certificate."""
    needs_version("4.9.7")
    for name in ("server", "client"):
        make_certificate(tmp_path, name)
    properties = {
        "tls.server.mode": "permissive",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": tmp_path / "server.pem",
        "tls.server.keyPath": tmp_path / "server.key",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": tmp_path / "client.pem",
    }
    jvm = (*javarocketmq.TEST_JVM, *(f"-D{name}={value}" for name, value in properties.items()))
    group = BrokerGroup(tmp_path, namesrv_kind=JAVA)
    with ExitStack() as stack:
        names = javarocketmq.namesrv("namesrv", tmp_path, group.namesrv_port, jvm)
        settings = group.master_settings() | {"brokerRole": "ASYNC_MASTER"}
        master = javarocketmq.broker("master", tmp_path, settings, jvm)
        for server in (names, master):
            stack.callback(kill_if_running, server)
            server.start()  # plain connections are served as well
        bodies = bodies_of(0, 10)
        with group.master_client() as client:
            for body in bodies:
                assert client.send("Orders", body, 0).code == 0
        wait_for_route(group, "Orders", 1)
        pem = {name: str(tmp_path / f"{name}.pem") for name in ("server", "client")}
        tls = Tls(pem["server"], pem["client"], str(tmp_path / "client.key"), verify="chain")
        assert read_all(settings_of(group, tls=tls), "Orders", columns=["body"])["body"].to_pylist() == bodies
        with pytest.raises(BadSetting, match="certificate isn't accepted"):
            read_all(settings_of(group, tls=Tls(pem["client"], verify="chain")), "Orders")
        with pytest.raises(BrokerGone):
            read_all(settings_of(group, tls=Tls(pem["server"], verify="chain"), retries=0), "Orders")
