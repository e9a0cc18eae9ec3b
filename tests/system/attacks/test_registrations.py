"""Strangers register as much as there may be, over and over: nobody else waits for the name server, and it stays
small."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatwisted.namesrv.routeshares import SHARE
from hatwisted.namesrv.topicqueues import MAX_ROUTES
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registerbody import MAX_TOPICS, encode_register_body
from hatwisted.wire.registration import DataVersion, RegisterBody, TopicConfig, TopicTable
from testbed.processes import ServerProcess, free_port, twistd, write_conf
from testbed.remotingclient import RemotingClient
from tests.support.ownpace import scheduled
from tests.support.soak import times

MEMORY = 300 << 20
PATIENCE = 0.05
"""Seconds that the name server may compute between an honest client's question and its answer: the 99th
percentile. What else the machine does counts for nothing."""
SECONDS = 3.0 * times(1)
QUESTIONS = 200
"""At least."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("names")
    port = free_port()
    conf = write_conf(folder / "namesrv.conf", {"listenPort": port, "kvConfigPath": folder / "kvConfig.json"})
    made = twistd("hanamesrv", "namesrv", folder, conf, port)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def body(name: str, version: int, compressed: bool, length: int) -> bytes:
    names = [f"{name}-{index}".ljust(length, "x") for index in range(MAX_TOPICS)]
    topics = {name: TopicConfig(topic_name=name) for name in names}
    table = TopicTable(data_version=DataVersion(counter=version), topic_config_table=topics)
    return encode_register_body(RegisterBody(topic_config_serialize_wrapper=table), compressed)


def fields(name: str, address: str) -> dict[str, str]:
    own = {"brokerName": name, "brokerAddr": address, "clusterName": "c", "haServerAddr": "", "brokerId": "0"}
    return own | {"compressed": "false", "bodyCrc32": "0"}


@pytest.mark.parametrize("compressed", [False, True])
def test_nobody_waits_for_registrations_of_others(server: ServerProcess, compressed: bool) -> None:
    # Each version is another than the one before, so that all topics are entered.
    texts = [body("stranger", version, compressed, 60) for version in range(2)]
    stop, told = threading.Event(), Counter[int]()

    def register(number: int) -> None:
        with RemotingClient("127.0.0.1", server.port) as stranger:
            turn = number
            while not stop.is_set():
                turn += 1
                address = f"203.0.113.{number}:1"
                told[stranger.call(103, fields(f"x{number}", address), texts[turn % 2]).code] += 1
                if turn % 3 == 0:
                    stranger.call(104, fields(f"x{number}", address))

    strangers = [threading.Thread(target=register, args=(number,)) for number in range(3)]
    ran = []
    with RemotingClient("127.0.0.1", server.port) as honest, contextlib.ExitStack() as stack:
        honest.call(103, fields("honest", "127.0.0.1:1"), body_of_one()).expect(0)
        for stranger in strangers:
            stranger.start()
            stack.callback(stranger.join, 60)
        stack.callback(stop.set)
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends or len(ran) < QUESTIONS or told[0] < 3:
            before, (_, late) = scheduled(server.pid)[0], scheduled(os.getpid())
            answer = honest.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Honest"})
            # What it did while the answer was there and nobody took it is no wait for it.
            late = scheduled(os.getpid())[1] - late
            ran.append(max(0, scheduled(server.pid)[0] - before - late) / 1e9)
            answer.expect(0)
            assert server.memory() < MEMORY
            time.sleep(0.002)
    p99 = sorted(ran)[len(ran) * 99 // 100]
    print(f"{told} registrations, p99 {p99 * 1000:.1f} ms of {len(ran)}, {server.memory() >> 20} MiB")
    assert p99 < PATIENCE, sorted(ran)[-10:]
    assert set(told) <= {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}


def test_who_fills_the_routes_leaves_room_for_others(server: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:

        def connected(host: str) -> RemotingClient:
            client = stack.enter_context(RemotingClient("127.0.0.1", server.port, 30))
            client.socket.close()
            client.socket = socket.create_connection(("127.0.0.1", server.port), 30, (host, 0))
            return client

        stranger, told = connected("127.0.0.2"), []
        for number in range(5):
            text = body(f"filling-{number}", 0, True, 20)
            told.append(stranger.call(103, fields(f"y{number}", f"203.0.113.{number}:1"), text).code)
        most = MAX_ROUTES // SHARE // MAX_TOPICS
        assert told == [ResponseCode.SUCCESS] * most + [ResponseCode.SYSTEM_ERROR] * (5 - most)
        honest = connected("127.0.0.3")
        honest.call(103, fields("honest", "127.0.0.3:1"), body_of_one()).expect(0)
        honest.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Honest"}).expect(0)


def body_of_one() -> bytes:
    table = TopicTable(topic_config_table={"Honest": TopicConfig(topic_name="Honest")})
    return encode_register_body(RegisterBody(topic_config_serialize_wrapper=table))
