"""Ways in which one stranger once froze, filled or emptied real servers: none has more than MEMORY, or lets an
honest client wait for PATIENCE.

Each attack gets ROUNDS: it must stay within memory in all of them, and leave the honest client in peace in one (a
machine with much else to do makes it wait now and then; a server that is frozen does so each time). The soak looks
closely: there it's left in peace in CALM of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import selectors
import socket
import struct
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from bench.warmth import touch
from hatwisted.wire import layout
from hatwisted.wire.batch import MAX_ENTRIES
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.record import encode_record, make_record
from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import BROKER_PORTS, free_port, wait_until
from testbed.remotingclient import (
    RemotingClient,
    RemotingFailure,
    encode_frame,
    encode_inner,
    pull_fields,
    send_fields,
)
from tests.fuzz.pagetargets import HELLO
from tests.support.bystander import Bystander, Watched
from tests.support.ownpace import scheduled, within
from tests.support.scriptedgroup import ScriptedServer, response
from tests.support.soak import times

MEMORY = 300 << 20
"""Bytes of RssAnon of any server, whatever it is sent."""
CLOSELY = times(1) > 1
PATIENCE = 0.05 if CLOSELY else 0.5
"""Seconds that the master may compute, on whatever it is, between an honest client's send and its answer: the
99th percentile. A freeze takes seconds, and what else the machine does counts for nothing. The soak looks closely:
neither may the sends themselves take longer, though a slave has to acknowledge them."""
OWN_SECONDS = 20.0
"""Of a server's own, in which it lets somebody in and answers a probe."""
SENDS = 100
"""How many there have to be then."""
ROUNDS = 4
CALM = 2 if CLOSELY else 1
GROWTH = 1 << 30
"""Bytes that servers, kernel and logs may take meanwhile: a host may take longer to give them than an answer."""
LEAST = 2.0 if CLOSELY else 1.0
"""Seconds that a round takes at least."""
LONG = 6.0 if CLOSELY else 1.5
"""That those who ask as fast as they're answered go on."""
SYNCED = 4.0 if CLOSELY else 2.5
"""In which the slave takes tables several times: see QUICK_SYNC."""
MIB = 1 << 20
QUEUES = 20_000
STRANGER = "127.0.0.2"
"""Is on no list."""
SETTINGS = {
    **SMALL_STORE,
    **QUICK_SYNC,
    "maxIndexNum": 200_000,
    "adminAllowList": "127.0.0.1",
    "mappedFileSizeCommitLog": 32 << 20,
}
JOIN = RequestCode.JOIN_CONSUMER_OFFSET
Attack = Callable[[BrokerGroup, contextlib.ExitStack], None]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[BrokerGroup]:
    settings = {**SETTINGS, "metricsPort": free_port(), "dashboardPort": free_port()}
    own = {"metricsPort": free_port(), "dashboardPort": free_port()}
    names = {"metricsPort": free_port()}
    with BrokerGroup(
        folder, namesrv_kind=OURS, settings=settings, slave_settings=own, namesrv_settings=names
    ) as made:
        made.start()
        yield made
        made.stop()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """One for all attacks: what one leaves behind counts for the next."""
    with started(tmp_path_factory.mktemp("strangers")) as made:
        yield made


@pytest.fixture(scope="module")
def filled_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """One for those that leave as many topics, groups and rows of progress behind as there may be."""
    with started(tmp_path_factory.mktemp("filling-strangers")) as made:
        yield made


def connect(port: int, stack: contextlib.ExitStack, source: str = "127.0.0.1") -> socket.socket:
    """One that hardly takes what it's sent."""
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(20)
    made.bind((source, 0))
    made.connect(("127.0.0.1", port))
    return made


def pour(into: socket.socket, *data: bytes) -> None:
    """As far as the server takes it."""
    into.settimeout(2)
    with contextlib.suppress(OSError):
        for each in data:
            into.sendall(each)


def refused(port: int, code: int, ext: dict[str, str], body: bytes = b"", source: str = STRANGER) -> bool:
    """Is this request answered with NO_PERMISSION?"""
    with RemotingClient("127.0.0.1", port, source=source) as client:
        return client.call(code, ext, body).code == ResponseCode.NO_PERMISSION


def held_pulls(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """With bodies and fields that were kept as long as they waited."""
    fields = pull_fields("Held", 0, 1, 32, 30_000)
    with group.master_client() as client:
        client.send("Held", b"x")
    for body, more in ((bytes(2 * MIB), {}), (bytes(60_000), {}), (b"", {"more": "x" * 200_000})):
        pour(
            connect(group.master_port, stack),
            *(encode_frame(11, number, fields | more, body) for number in range(300)),
        )


def pulls_that_wake(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """All of one queue, which grows: for none of them, then by a large message for some."""
    with group.master_client() as client:
        client.send("Waking", b"x")
        end = wait_until_dispatched(client, "Waking")
        fields = pull_fields("Waking", 0, end, 32, 30_000) | {"subscription": "another"}
        for _ in range(10):
            peer = connect(group.master_port, stack)
            for first in range(0, 4000, 500):
                pour(peer, *(encode_frame(11, first + number, fields) for number in range(500)))
        for _ in range(10):
            client.send("Waking", b"x")
            time.sleep(0.05)
        fields = pull_fields("Waking", 0, wait_until_dispatched(client, "Waking"), 32, 30_000)
        for _ in range(150):
            pour(connect(group.master_port, stack), encode_frame(11, 1, fields))
        client.send("Waking", bytes(4 * MIB - 1000))


def members_of_many_groups(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Each one that comes or goes is news for all the others."""
    member = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": []}
    member |= {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}
    groups = [member | {"groupName": f"many-{number}"} for number in range(400)]
    peers = []
    for number in range(120):
        body = json.dumps({"clientID": f"m{number}", "consumerDataSet": groups}).encode()
        peers.append(connect(group.master_port, stack))
        pour(peers[-1], encode_frame(RequestCode.HEART_BEAT, number, {}, body))
        for peer in peers:
            peer.setblocking(False)
            with contextlib.suppress(OSError):
                while peer.recv(MIB):
                    pass


def long_names(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Of a thousand characters that take four bytes each, of what there may be so many of."""
    member = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "subscriptionDataSet": []}
    member |= {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}
    for number in range(100):
        names = [f"\U0001f600{number}-{each}-{'x' * 950}" for each in range(900)]
        queues = [{"topic": name, "brokerName": name, "queueId": 0} for name in names]
        subscribed = [{"topic": name, "subString": "*", "tagsSet": [], "codeSet": []} for name in names]
        peer = connect(group.master_port, stack)
        for code, body in (
            (RequestCode.LOCK_BATCH_MQ, {"consumerGroup": "g", "clientId": "c", "mqSet": queues}),
            (
                RequestCode.HEART_BEAT,
                {"consumerDataSet": [member | {"groupName": name} for name in names[:700]]},
            ),
            (RequestCode.HEART_BEAT, {"producerDataSet": [{"groupName": name} for name in names]}),
            (
                RequestCode.HEART_BEAT,
                {"consumerDataSet": [member | {"groupName": "g", "subscriptionDataSet": subscribed}]},
            ),
        ):
            text = json.dumps(body | {"clientID": f"c{number}"}, ensure_ascii=False)
            pour(peer, encode_frame(code, number, {}, text.encode()))


def expressions_of_a_heartbeat(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """As long as one may be, as many as there is room for, new ones with each."""
    kinds = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    values = itertools.count()
    for number in range(10):
        peer = connect(group.master_port, stack)
        for version in range(2):
            wanted = [
                {
                    "topic": f"T{each}",
                    "subString": " OR ".join(f"a={next(values)}" for _ in range(1000)),
                    "expressionType": "SQL92",
                    "subVersion": version,
                }
                for each in range(60)
            ]
            member = kinds | {"groupName": f"filtering-{number}", "subscriptionDataSet": wanted}
            member |= {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}
            body = json.dumps({"clientID": f"f{number}", "consumerDataSet": [member]}).encode()
            pour(peer, encode_frame(RequestCode.HEART_BEAT, number, {}, body))


def progress_of_unknown_groups(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """In a topic that exists; the table is written and sent to the slave each time, and looked through."""
    fields = {"topic": "Bystander", "queueId": "0", "commitOffset": "0"}
    peer = connect(group.master_port, stack)
    for first in range(0, 60_000, 1000):
        names = (f"unknown-{number}" for number in range(first, first + 1000))
        pour(peer, *(encode_frame(15, 1, fields | {"consumerGroup": name}) for name in names))
        with contextlib.suppress(OSError):
            while len(peer.recv(MIB)) == MIB:
                pass
    for code, ext in ((208, {"consumerGroup": "unknown-1"}), (300, {"topic": "Bystander"})):
        pour(connect(group.master_port, stack), *(encode_frame(code, number, ext) for number in range(50)))


def topics_by_the_thousand(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """A message makes each, and has the table written."""
    name, ends = f"made-{time.monotonic_ns()}", time.monotonic() + LONG
    with group.master_client(60) as client:
        for first in range(0, 4000, 50):
            if time.monotonic() > ends:
                break
            topics = (f"{name}-{number}" for number in range(first, first + 50))
            for opaque in [client.post(310, send_fields(topic, 0, {}), b"x") for topic in topics]:
                client.answer(opaque)


def unread_answers(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Of all that a message's pull may bring, many times on many connections."""
    with group.master_client() as client:
        if not client.max_queue_offset("Large", 0):
            for _ in range(6):
                client.send_batch("Large", [bytes(50_000)])
        wait_until_dispatched(client, "Large")
    pulls = b"".join(encode_frame(11, number, pull_fields("Large", 0, 0, 32, 0)) for number in range(20))
    for port in (group.master_port, group.slave_port):
        for _ in range(300):
            with contextlib.suppress(OSError):
                connect(port, stack, STRANGER).sendall(pulls)


def wait_until_dispatched(client: RemotingClient, topic: str) -> int:
    """The queue's end, once nothing is behind the log."""
    wait_until(lambda: client.runtime_info()["dispatchBehindBytes"] == "0", 60, "the queues are written")
    return client.max_queue_offset(topic, 0)


def continuation_lines(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    for port, code in ((group.master_port, 25), (group.namesrv_port, 318)):
        for size in (63 << 10, MIB, 8 * MIB):
            pour(connect(port, stack), *[encode_frame(code, 1, {}, b"a\\\n" * (size // 3))] * 5)


def escaped_quotes(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    version = {"brokerName": "x", "brokerAddr": "h:1", "clusterName": "c", "brokerId": "0"}
    for port, code, ext in ((group.master_port, 34, {}), (group.namesrv_port, 322, version)):
        for size in (60 << 10, 1000 << 10):
            body = b'{"clientID":"' + b'\\"' * (size // 2)
            pour(connect(port, stack), *[encode_frame(code, 1, ext, body)] * 10)


def many_short_values(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """As many as a body holds, of the requests that may have large ones, as JSON and in its dialect."""
    sizes = {RequestCode.LOCK_BATCH_MQ: 4 * MIB, RequestCode.HEART_BEAT: MIB, JOIN: MIB // 2}
    bodies = [(group.master_port, code, size) for code, size in sizes.items()]
    for port, code, size in (*bodies, (group.namesrv_port, RequestCode.REGISTER_BROKER, 15 * MIB)):
        for head, value, tail in (
            (b'{"x":[', b"[],", b"[]]}"),
            (b"{", b"1:1,", b"2:2}"),
            (b'{0:0,"x":[', b'"",', b'""]}'),
            (b"[", b"2,", b""),
        ):
            body = head + value * ((size - 100) // len(value)) + tail
            ext = {"brokerName": "x", "brokerAddr": "203.0.113.66:1", "clusterName": "c", "brokerId": "0"}
            peer = connect(port, stack)
            pour(peer, *(encode_frame(code, number, ext, body) for number in range(3)))


def pipelined_queries(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """For a key that 60,000 messages have, none of which fits."""
    with group.master_client() as client:
        if client.max_queue_offset("Keyed", 0) < 60_000:
            for _ in range(60):
                client.send_batch("Keyed", [b"x"] * 1000, 0, {"KEYS": "k"})
        first = int(client.runtime_info()["earliestMessageTimeStamp"])
    query = {"topic": "Keyed", "key": "k", "maxNum": "32"}
    query |= {"beginTimestamp": str(first + 1500), "endTimestamp": str(first)}
    pour(connect(group.master_port, stack), *(encode_frame(12, number, query) for number in range(2000)))


def resets_for_who_does_not_read(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    member = {"groupName": "Reset", "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": []}
    member |= {"messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}
    with group.master_client() as client:
        topic = {"topic": "Wide", "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
        topic |= {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "topicSysFlag": "0"}
        client.call(17, topic | {"order": "false"}).expect(0)
        table = {"offsetTable": {"Wide@Reset": {str(queue): 0 for queue in range(QUEUES)}}}
        client.call(JOIN, {}, json.dumps(table).encode())
    peer = connect(group.master_port, stack)
    pour(peer, encode_frame(34, 1, {}, json.dumps({"clientID": "m", "consumerDataSet": [member]}).encode()))
    reset = {"topic": "Wide", "group": "Reset", "timestamp": "-1", "isForce": "true"}
    asking = connect(group.master_port, stack)
    pour(asking, *(encode_frame(222, number, reset) for number in range(100)))


def progress_of_unknown_topics(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    peer = connect(group.master_port, stack)
    for frame in range(5):
        rows = {f"none-{frame}-{number:06d}-{'x' * 60}@no-group": {"0": 0} for number in range(45_000)}
        pour(peer, encode_frame(JOIN, frame, {}, json.dumps({"offsetTable": rows}).encode()))


def false_slaves(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            pour(connect(group.ha_port, stack), bytes(8))
    with group.master_client() as client:
        for _ in range(20):
            client.send_batch("Bulk", [bytes(1000)] * 900)


def idle_connections(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    for port in (group.master_port, group.namesrv_port, group.ha_port, group.master_port - 2):
        for _ in range(100):
            with contextlib.suppress(OSError):
                pour(connect(port, stack), encode_frame(28, 1, {})[:5])


def forged_records(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """A message's body that holds a half message, at the offset that it will have or near it."""
    ending = {"producerGroup": "p", "tranStateTableOffset": "5", "commitOrRollback": "8", "msgId": "m"}
    host = HostPort(b"\x7f\0\0\1", 1)
    properties = b"PGROUP\x01p\x02REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02REAL_QID\x017\x02"
    with group.master_client() as client:
        for _ in range(50):
            end = client.send("Carrier", b"x").physical
            at = int(client.runtime_info()["commitLogMaxOffset"]) + layout.BODY_AT
            half = make_record(
                "RMQ_SYS_TRANS_HALF_TOPIC",
                b"forged",
                raw_properties=properties,
                queue_offset=5,
                physical_offset=at,
                born_host=host,
                store_host=host,
            )
            end = client.send("Carrier", encode_record(half)).physical + layout.BODY_AT
            ended = client.call(37, ending | {"commitLogOffset": str(end), "fromTransactionCheck": "false"})
            assert ended.code != 0
        assert client.max_queue_offset("SCHEDULE_TOPIC_XXXX", 7) == 0


def administration(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    before = (group.folder / "master.conf").read_bytes()
    body = b"fileReservedTime=0\nnamesrvAddr=203.0.113.66:9876\n"
    for _ in range(50):
        for code in (25, 329, 17, 215, 200, 207):
            assert refused(group.master_port, code, {"topic": "Bystander", "groupName": "g"}, body), code
        assert refused(group.master_port, 25, {}, b"flushDiskType=ASYNC_FLUSH\n")
    assert (group.folder / "master.conf").read_bytes() == before


def half_frames(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Beyond what all incomplete frames of a process may have."""
    data = encode_frame(310, 1, send_fields("Half", 0, {}), bytes(15 * MIB))[: 12 * MIB]
    for port in (group.master_port, group.master_port - 2, group.namesrv_port):
        for _ in range(20):
            pour(connect(port, stack), data)
    frame = encode_frame(34, 1, {}, b"{}" + b" " * 5000)
    with group.master_client() as client:
        for _ in range(20):
            client.socket.sendall(frame[:3000])
            time.sleep(0.02)
            client.socket.sendall(frame[3000:])
            client.answer()


def half_handshakes(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Each costs the server a signature; nobody goes on after it, and some don't get that far."""
    assert group.namesrv is not None
    for port in (group.master_port, group.master_port - 2, group.namesrv_port, group.slave_port):
        for number in range(80):
            pour(connect(port, stack, STRANGER), HELLO if number % 4 else HELLO[:50])


def inflating_registrations(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    def text(data: bytes) -> bytes:
        return struct.pack(">i", len(data)) + data

    rows = b"".join(text(b"t0%06d 4 4 6 SINGLE_TAG" % each) for each in range(200_000))
    for number in range(4):
        named = rows.replace(b"t0", b"t%d" % number)
        parts = [text(b'{"counter":1,"timestamp":1}'), struct.pack(">i", 200_000), named, text(b"[]")]
        ext = {"brokerName": f"x{number}", "brokerAddr": f"203.0.113.6{number}:1", "clusterName": "c"}
        ext |= {"haServerAddr": "", "brokerId": "0", "compressed": "true", "bodyCrc32": "0"}
        pour(
            connect(group.namesrv_port, stack), encode_frame(103, number, ext, zlib.compress(b"".join(parts)))
        )
    pour(connect(group.namesrv_port, stack), *(encode_frame(206, number, {}) for number in range(200)))


def false_master(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Registered under the master's name; its tables are empty."""
    tables = {21: b'{"topicConfigTable":{}', 201: b'{"subscriptionGroupTable":{}', 43: b'{"offsetTable":{}'}
    other = stack.enter_context(ScriptedServer())
    version = b',"dataVersion":{"counter":99,"timestamp":99}}'
    other.script = lambda request: response(
        request, 0, body=tables.get(request.code, b'{"offsetTable":{}') + version
    )
    registered = {"brokerName": "broker-a", "brokerAddr": other.address, "clusterName": "DefaultCluster"}
    registered |= {"haServerAddr": f"127.0.0.1:{free_port(BROKER_PORTS)}", "brokerId": "0"}
    table = {"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": {}}
    body = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": table}).encode()
    with group.slave_client() as reader, RemotingClient("127.0.0.1", group.namesrv_port) as stranger:
        ends = time.monotonic() + SYNCED
        while time.monotonic() < ends:
            stranger.call(103, registered | {"compressed": "false", "bodyCrc32": "0"}, body)
            assert reader.pull("Bystander", 0, 0).code == 0
            time.sleep(0.02)


def false_unregistration(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """In the master's name, of who isn't on its host."""
    master = {"brokerName": "broker-a", "brokerAddr": f"127.0.0.1:{group.master_port}", "brokerId": "0"}
    with RemotingClient("127.0.0.1", group.namesrv_port) as client:
        for _ in range(50):
            assert refused(group.namesrv_port, 104, master | {"clusterName": "DefaultCluster"})
            members = client.route("Bystander").expect(0).json()["brokerDatas"][0]["brokerAddrs"]
            assert members["0"] == master["brokerAddr"]


def controls_in_names(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    name = "g\n2026-01-01T00:00:00+0000 [hatwisted.store#critical] failed \x1b[31m\x1b]0;owned\x07"
    body = json.dumps(
        {"clientID": name, "consumerDataSet": [{"groupName": name, "subscriptionDataSet": []}]}
    ).encode()
    peer = connect(group.master_port, stack)
    for number in range(200):
        pour(peer, encode_frame(34, number, {"topic": name}, body))
    time.sleep(0.5)
    log = group.master.log_text()
    assert "\x1b" not in log and "\x07" not in log
    assert "\n2026-01-01T00:00:00+0000 [hatwisted.store#critical]" not in log


def readers_of_pages(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Half requests, half handshakes, answers and events that nobody takes, a body without an end."""
    assert group.namesrv is not None
    pages = [
        (group.master.pid, group.settings["metricsPort"], "healthz"),
        (group.master.pid, group.settings["dashboardPort"], ""),
        (group.namesrv.pid, group.namesrv_settings["metricsPort"], "healthz"),
    ]
    for pid, configured, probe in pages:
        port = int(str(configured))

        def pour_in(*data: bytes, pid: int = pid, port: int = port) -> None:
            pour(within(pid, OWN_SECONDS, lambda: connect(port, stack, STRANGER)), *data)

        def probed(port: int = port, probe: str = probe) -> int:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{probe}", timeout=60) as answer:
                return int(answer.status)

        for begun in (b"GET /metrics HTTP/1.1\r\nX: ", HELLO):
            for _ in range(100):
                pour_in(begun)
        for path in (b"metrics", b"healthz", b"stream", b""):
            pour_in(*[b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % path] * 2000)
        head = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (1 << 40)
        pour_in(head, *[bytes(MIB)] * 100)
        assert within(pid, OWN_SECONDS, probed) == 200


def flood_of_sends(group: BrokerGroup, stack: contextlib.ExitStack) -> None:
    """Batches of as many messages as there may be, as fast as they are taken; half of them wait for no slave."""
    body = b"".join(encode_inner(b"x", b"") for _ in range(MAX_ENTRIES))
    frames = [
        encode_frame(320, 1, send_fields("Flood", 0, properties, batch=True), body)
        for properties in ({}, {"WAIT": "false"})
    ]
    ready = stack.enter_context(selectors.DefaultSelector())
    for number in range(10):
        peer = connect(group.master_port, stack, STRANGER)
        peer.setblocking(False)
        ready.register(peer, selectors.EVENT_READ | selectors.EVENT_WRITE, frames[number % 2])
    unsent = {key.fd: b"" for key in ready.get_map().values()}
    ends = time.monotonic() + LONG
    while time.monotonic() < ends:
        for key, events in ready.select(0.1):
            peer = cast(socket.socket, key.fileobj)
            if events & selectors.EVENT_READ:
                peer.recv(MIB)
            if events & selectors.EVENT_WRITE:
                rest = unsent[key.fd] or key.data
                unsent[key.fd] = rest[peer.send(rest) :]


ATTACKS: tuple[Attack, ...] = (
    held_pulls,
    continuation_lines,
    escaped_quotes,
    many_short_values,
    pipelined_queries,
    resets_for_who_does_not_read,
    progress_of_unknown_topics,
    false_slaves,
    idle_connections,
    forged_records,
    administration,
    half_frames,
    half_handshakes,
    inflating_registrations,
    false_unregistration,
    false_master,
    controls_in_names,
    readers_of_pages,
    flood_of_sends,
)
FILLING: tuple[Attack, ...] = (
    pulls_that_wake,
    unread_answers,
    members_of_many_groups,
    progress_of_unknown_groups,
    long_names,
    topics_by_the_thousand,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_honest_client_and_the_memory(group: BrokerGroup, attack: Attack) -> None:
    bear(group, attack)


@pytest.mark.parametrize("attack", FILLING, ids=lambda attack: attack.__name__)
def test_the_same_where_much_is_left_behind(filled_group: BrokerGroup, attack: Attack) -> None:
    bear(filled_group, attack)


def test_the_same_where_expressions_are_left_behind(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The soak has a group of its own for it; here it's the last one on the first attacks'."""
    shared = not CLOSELY and contextlib.nullcontext(request.getfixturevalue("group"))
    with shared or started(tmp_path) as group:
        bear(group, expressions_of_a_heartbeat)


def bear(group: BrokerGroup, attack: Attack) -> None:
    """An attack, while an honest client sends."""
    assert group.namesrv is not None
    servers = (group.master, group.slave, group.namesrv)
    pids, told, calm = [server.pid for server in servers], [], 0
    for _ in range(ROUNDS):
        if CLOSELY:
            touch(GROWTH)
        before = scheduled(group.master.pid)
        with Bystander(group.master_port, *pids) as watching, contextlib.ExitStack() as stack:
            ends = time.monotonic() + LEAST
            attack(group, stack)
            time.sleep(max(0.0, ends - time.monotonic()))
        found = watching.result
        assert found is not None
        ran, waited = (now - then for now, then in zip(scheduled(group.master.pid), before, strict=True))
        slowed = 1 + waited / ran
        told.append(
            f"p99 {found.p99 * 1000:.1f} ms of {len(found.seconds)}, of which the master ran "
            f"{found.p99_ran * 1000:.1f} ms, {found.peak >> 20} MiB, "
            f"by other work {slowed:.1f} times as slow"
        )
        print(attack.__name__, told[-1])
        assert found.peak < MEMORY, told
        assert not found.refused, found.refused
        calm += found.p99_ran < PATIENCE and not (CLOSELY and waits(found, slowed))
        if calm == CALM:
            break
    else:
        pytest.fail(f"an honest client waits: {told}")
    assert [server.pid for server in servers if server.running] == pids
    assert "Traceback" not in "".join(server.log_text() for server in servers)
    wait_until(lambda: answered(group.slave_port), 60, "the slave answers")


def waits(found: Watched, slowed: float) -> bool:
    """Whether its messages have taken long, or were few.

    - found: what the honest client has seen
    - slowed: how many times as long the master's own work has taken as it would on an idle machine
    """
    return found.p99 >= PATIENCE * slowed or len(found.seconds) * slowed < SENDS


def answered(port: int) -> bool:
    with contextlib.suppress(OSError, RemotingFailure), RemotingClient("127.0.0.1", port, 5) as client:
        return client.call(28).code == 0
    return False
