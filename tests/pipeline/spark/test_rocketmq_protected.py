"""Spark and the commands on a pair that speaks TLS alone and asks for accounts, name server included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from testbed.brokergroup import OURS, SMALL_STORE, BrokerGroup
from testbed.processes import REPOSITORY, twistd, wait_until, write_conf
from tests.support.certificate import authority, server_certificate
from tests.support.soak import only_in_soak

READER, BROKERS, COUNT, SECONDS = "spark-reader", "pair-itself", 300, 60.0
SECRETS = {READER: "secret-of-reader", BROKERS: "secret-of-brokers"}
ACCOUNTS = f"""\
accounts:
- accessKey: {BROKERS}
  secretKey: {SECRETS[BROKERS]}
  admin: true
- accessKey: {READER}
  secretKey: {SECRETS[READER]}
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - Orders=PUB|SUB
  - Written=PUB|SUB
  groupPerms:
  - TOOLS_CONSUMER=SUB
"""


def account_file(folder: Path, name: str, secret: str | None = None) -> Path:
    path = folder / f"{name}.yml"
    path.write_text(f"accessKey: {name}\nsecretKey: {secret or SECRETS[name]}\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("protected")
    server_certificate().write(folder, "server")
    (folder / "ca.pem").write_bytes(authority().pem)
    (folder / "plain_acl.yml").write_text(ACCOUNTS)
    for name in SECRETS:
        account_file(folder, name)
    account_file(folder, "stranger", "secret-of-nobody")
    return folder


@pytest.fixture(scope="module")
def group(folder: Path) -> Iterator[BrokerGroup]:
    tls = {
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": folder / "server.pem",
        "tls.server.keyPath": folder / "server.key",
        "tls.client.trustCertPath": folder / "ca.pem",
        "tls.client.authServer": "true",
    }
    accounts = {"aclEnable": "true", "aclPlainFile": folder / "plain_acl.yml"}
    own = {"credentialsFile": folder / f"{BROKERS}.yml"}
    settings = SMALL_STORE | tls | accounts | own
    with BrokerGroup(folder, namesrv_kind=OURS, settings=settings) as running:
        conf = write_conf(folder / "namesrv.conf", {"listenPort": running.namesrv_port} | tls | accounts)
        running.namesrv = twistd("hanamesrv", "namesrv", folder, conf, running.namesrv_port)
        # What answers plain bytes isn't there to be asked.
        for server in (running.namesrv, running.master, running.slave):
            server.start(wait=None)
        yield running
        running.stop()
        for server in (running.namesrv, running.master, running.slave):
            assert "Traceback" not in server.log_text()
            assert "secret-of" not in server.log_text()


@pytest.fixture(scope="module")
def reach(group: BrokerGroup, folder: Path) -> dict[str, str]:
    """The options of a source that checks certificates."""
    return {
        "namesrvAddr": f"127.0.0.1:{group.namesrv_port}",
        "tlsTrustFile": str(folder / "ca.pem"),
        "retries": "2",
    }


def run(reach: dict[str, str], command: str, *words: str, account: Path) -> subprocess.CompletedProcess[str]:
    options = [f"--option={name}={value}" for name, value in reach.items() if name != "namesrvAddr"]
    given = [command, *words, "-n", reach["namesrvAddr"], f"--credentials={account}", *options]
    return subprocess.run(
        [sys.executable, "-m", "hatwisted", "pipeline", *given],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture(scope="module")
def orders(group: BrokerGroup, reach: dict[str, str], folder: Path) -> list[str]:
    """The bodies of the messages, sent by the command `import`."""
    bodies = [f"order {number}" for number in range(COUNT)]
    source = folder / "orders.ndjson"
    source.write_text("".join(json.dumps({"topic": "Orders", "body": body}) + "\n" for body in bodies))

    def sent() -> bool:
        """The pair starts meanwhile, and makes the topic with the first message."""
        result = run(reach, "import", str(source), account=folder / f"{READER}.yml")
        print(result.stdout, result.stderr)
        return result.returncode == 0

    wait_until(sent, SECONDS, "the messages are stored")
    return bodies


def test_a_session_reads_with_an_account_over_tls(
    spark: SparkSession, reach: dict[str, str], orders: list[str]
) -> None:
    spark.dataSource.register(RocketMQSource)
    signed = {**reach, "accessKey": READER, "secretKey": SECRETS[READER], "topics": "Orders"}
    found = spark.read.format("rocketmq").options(**signed).load()
    assert {bytes(row.body).decode() for row in found.select("body").collect()} == set(orders)
    # On the master and on the slave: both ask, and both speak TLS.
    master = spark.read.format("rocketmq").options(**signed, readFrom="master").load()
    assert master.count() == found.count()


def test_who_has_no_account_or_another_authority_reads_nothing(
    spark: SparkSession, reach: dict[str, str], orders: list[str], folder: Path
) -> None:
    spark.dataSource.register(RocketMQSource)
    stranger = {"accessKey": "stranger", "secretKey": "secret-of-nobody"}
    reader = {"accessKey": READER, "secretKey": SECRETS[READER]}
    for changes, told in (
        ({**stranger}, "No acl config for stranger"),
        ({**reader, "tlsTrustFile": str(folder / "server.pem")}, "certificate isn't accepted"),
    ):
        with pytest.raises(Exception, match=told) as failed:
            spark.read.format("rocketmq").options(**{**reach, **changes}, topics="Orders").load().count()
        assert "secret-of" not in str(failed.value)


def test_a_session_writes_with_an_account_over_tls(
    spark: SparkSession, reach: dict[str, str], orders: list[str]
) -> None:
    """Where the account may: Orders stays as it was for the tests that follow."""
    spark.dataSource.register(RocketMQSource)
    signed = {**reach, "accessKey": READER, "secretKey": SECRETS[READER]}
    rows = spark.range(3).selectExpr("cast(id as string) as value")
    rows.write.format("rocketmq").options(**signed, topic="Written").mode("append").save()
    written = spark.read.format("rocketmq").options(**signed, topics="Written").load()
    assert {bytes(row.body) for row in written.collect()} == {b"0", b"1", b"2"}
    with pytest.raises(Exception, match=r"topic Forbidden.*(see the account|give the topic)") as failed:
        rows.write.format("rocketmq").options(**signed, topic="Forbidden").mode("append").save()
    assert "secret-of" not in str(failed.value)


@only_in_soak("a Spark of its own for most of a minute")
def test_what_says_nothing_of_tls_goes_by_the_client_s_files(
    java: None, reach: dict[str, str], orders: list[str], folder: Path
) -> None:
    """A source in a program, and the commands: as `hatwisted cluster` does."""
    home = folder / "home" / ".hatwisted"
    home.mkdir(parents=True)
    (home / "tls.properties").write_text(f"tls.client.trustCertPath={folder / 'ca.pem'}\n")
    (home / "credentials").write_text((folder / f"{READER}.yml").read_text())
    table, file = folder / "by-files", folder / "out.ndjson"
    for words, environ, code in (
        (["land", str(table), "--topic=Orders"], {}, 2),
        (["land", str(table), "--topic=Orders", "--tls"], {}, 0),
        (["export", "-o", str(file), "--topic=Orders"], {"HATWISTED_TLS": "true"}, 0),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "hatwisted", "pipeline", *words, "-n", reach["namesrvAddr"]],
            env={**os.environ, **environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(home.parent)},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, (words, done.stderr)
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["body"])["body"].to_pylist()
    assert {body.decode() for body in rows} == set(orders)
    assert {json.loads(line)["body"] for line in file.read_text().splitlines()} == set(orders)


def test_the_command_lands_with_a_file_of_credentials(
    java: None, reach: dict[str, str], orders: list[str], folder: Path
) -> None:
    table = folder / "table"
    refused = run(reach, "land", str(table), "--topic=Orders", account=folder / "stranger.yml")
    assert refused.returncode == 2
    assert "No acl config for stranger" in refused.stderr
    landed = run(reach, "land", str(table), "--topic=Orders", account=folder / f"{READER}.yml")
    assert landed.returncode == 0, landed.stderr
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["body"])["body"].to_pylist()
    assert {body.decode() for body in rows} == set(orders)
    assert "secret-of" not in landed.stdout + landed.stderr + refused.stdout + refused.stderr
