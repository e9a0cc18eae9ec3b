"""Our own client against RocketMQ's brokers (send, batch, delay, share, retry, order, administer), and as
RocketMQ's operators see it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import javarocketmq
from testbed.brokergroup import JAVA, OURS, BrokerGroup
from testbed.processes import wait_until
from tests.interop.conftest import NEWER_VERSION, OLDER_VERSION, needs
from tests.support import javaclient
from tests.support.clientprogram import ClientProgram
from tests.support.javaclient import JavaClient

PROGRAM = Path(__file__).with_name("client_program.py")


@pytest.mark.parametrize("version", NEWER_VERSION)
def test_our_client_and_a_java_broker(tmp_path: Path, version: str) -> None:
    needs(JAVA)
    if reason := javarocketmq.available(version):
        pytest.skip(reason)
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        settings = group.master_settings() | {"brokerRole": "ASYNC_MASTER"}
        master = javarocketmq.broker("master", tmp_path, settings, version=version)
        master.start()
        try:
            group.wait_registered(group.master_port)
            done = subprocess.run(
                [sys.executable, str(PROGRAM), f"127.0.0.1:{group.namesrv_port}"],
                capture_output=True,
                text=True,
                timeout=200,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            )
        finally:
            master.kill()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.split() == [
        "sent",
        "consumed",
        "retried",
        "committed",
        "administered",
        "transacted",
        "ordered",
        "asked",
    ]


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_mqadmin_sees_our_consumer_and_has_it_consume(tmp_path: Path, version: str) -> None:
    """307 and 309, asked and read by RocketMQ's own tool."""
    if reason := javaclient.unavailable(version):
        pytest.skip(f"RocketMQ's mqadmin {version} can't run here: {reason}")
    with BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER") as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        group.wait_registered(group.master_port)
        servers = f"127.0.0.1:{group.namesrv_port}"
        ours = [sys.executable, "-m", "tests.support.ourclient", servers]
        root = f"PYTHONPATH={Path(__file__).parents[2]}"
        with (
            ClientProgram("ours", tmp_path, ["env", root, *ours]) as client,
            JavaClient(version, "Mqadmin", tmp_path) as mqadmin,
        ):

            def run(*words: object) -> str:
                mqadmin.forget()
                mqadmin.tell("run", *words, "-n", servers)
                return "\n".join(event[0] if event else "" for event in mqadmin.events("printed"))

            client.tell("send", "Seen", "m", 4)
            client.tell("start", "one", "seen-group", "Seen", "ORDERLY")
            client.wait_for("got", lambda events: len(events) == 4, 60)
            connections = run("consumerConnection", "-g", "seen-group")
            client_id = re.findall(r"\S+@\d+#\w+", connections)[0]
            # mqadmin waits 5 s for an answer, whatever the machine does: then it is asked again.
            wait_until(
                lambda: "Rebalance OK" in run("consumerStatus", "-g", "seen-group"), 60, "all have answered"
            )
            status = run("consumerStatus", "-g", "seen-group", "-i", client_id, "-s")
            assert re.search(r"PROP_CONSUMEORDERLY +: true", status), status
            assert len(re.findall(r"^Seen +broker-a +\d +1 *$", status, re.MULTILINE)) == 4, status
            assert "%RETRY%seen-group" in status and "locked=true" in status

            found = run("queryMsgByOffset", "-t", "Seen", "-b", "broker-a", "-i", 0, "-o", 0)
            unique = re.findall(r"UNIQ_KEY=(\w+)", found)[0]
            client.forget()
            told = run("queryMsgByUniqueKey", "-t", "Seen", "-i", unique, "-g", "seen-group", "-d", client_id)
            assert "CR_SUCCESS" in told and "order=true" in told, told
            assert len(client.wait_for("got", bool, 60)) == 1


@pytest.mark.parametrize("version", OLDER_VERSION)
def test_ours_and_java_share_an_orderly_group_and_its_locks(tmp_path: Path, version: str) -> None:
    """Whoever joins or leaves: each queue's messages come in order, to one member after the other, and once.

    But for the message that Java's listener has in hand when its queue is taken away: Java notes no offset of
    it then, and the next member gets it, too.
    """
    if reason := javaclient.unavailable(version):
        pytest.skip(f"RocketMQ's client {version} can't run here: {reason}")
    impatient = (
        "-Drocketmq.client.rebalance.waitInterval=1000",
        "-Drocketmq.client.unlockDelayTimeMills=1000",
    )
    with BrokerGroup(tmp_path, namesrv_kind=OURS, role="ASYNC_MASTER") as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        group.wait_registered(group.master_port)
        servers = f"127.0.0.1:{group.namesrv_port}"
        root = f"PYTHONPATH={Path(__file__).parents[2]}"
        ours = ["env", root, sys.executable, "-m", "tests.support.ourclient", servers]
        with (
            ClientProgram("ours", tmp_path, ours) as client,
            JavaClient(version, "PushConsumer", tmp_path, servers, options=impatient) as java,
        ):
            client.tell("send", "Both", "first", 8)
            java.tell("start", "java", "both", "Both", "*", "ORDERLY")
            java.wait_for("got", lambda events: len(events) == 8, 60)
            client.tell("start", "ours", "both", "Both", "ORDERLY")

            def told() -> list[tuple[str, ...]]:
                return [*java.events("got"), *client.events("got")]

            def delivered() -> int:
                return len({event[2:4] for event in told()})

            sent = 8

            def shared() -> bool:
                nonlocal sent
                client.tell("send", "Both", f"more{sent}-", 4)
                sent += 4
                wait_until(lambda: delivered() >= sent, 60, "all are delivered")
                return len({event[2] for event in client.events("got")}) == 2

            wait_until(shared, 90, "ours has two of the four queues")
            java.tell("stop", "java")
            client.tell("send", "Both", "last", 40)
            sent += 40
            wait_until(lambda: delivered() >= sent, 60, "ours has taken over")
            events = told()
        assert delivered() == sent, "lost"
        for queue in map(str, range(4)):
            got = {
                member: [int(event[3]) for event in events if (event[0], event[2]) == (member, queue)]
                for member in ("java", "ours")
            }
            if got["java"][-1:] == got["ours"][:1]:
                got["ours"].pop(0)
            assert got["java"] + got["ours"] == list(range(len(got["java"]) + len(got["ours"])))
