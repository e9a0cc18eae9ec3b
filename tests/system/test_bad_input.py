"""What no peer should send, fed to a running pair: remoting and HA ports, and a false master to the slave.

Whatever comes: that connection is closed with a reason in the log (or kept, when it only is slow), memory
stays bounded, and other clients and the real slave go on.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatwisted.ha.linklimits import MAX_UNREPORTED
from hatwisted.wire.remoting import MAX_FRAME, MAX_HEADER
from testbed.brokergroup import SMALL_STORE, BrokerGroup, log_end_of
from testbed.processes import wait_until
from testbed.remotingclient import RemotingClient, encode_frame, send_fields

CLOSE_SECONDS = 60.0  # to close a connection after nonsense; a refused slave is told so 5 s later
MEMORY_GROWTH = 24 << 20  # bytes of RssAnon that an attack may cost
HOUSEKEEPING = 240  # seconds; after these the master closes any connection that hasn't reported
SETTINGS = {**SMALL_STORE, "haHousekeepingInterval": HOUSEKEEPING * 1000}
MIB = 1 << 20
NOISE = random.Random(5).randbytes(64 << 10)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """Our SYNC_MASTER and slave, shared by the attacks: they must not harm it."""
    with BrokerGroup(tmp_path_factory.mktemp("attacked"), settings=SETTINGS) as pair:
        pair.start()
        yield pair
        pair.stop()


@pytest.fixture(autouse=True)
def unharmed(group: BrokerGroup) -> Iterator[RemotingClient]:
    """A bystander connected before the attack and served after it, by the same processes, with PUT_OK."""
    pid = group.master.pid
    with group.master_client() as bystander:
        assert bystander.send("Bystander", b"before").code == 0
        yield bystander
        wait_until(lambda: bystander.send("Bystander", b"after").code == 0, 60, "a put is replicated again")
    assert group.master.running and group.master.pid == pid
    assert group.slave.running
    assert "Traceback" not in group.master.log_text()


def is_closed_by(peer: socket.socket, seconds: float = CLOSE_SECONDS) -> bool:
    """Does the server close this connection within the time? Bytes it still sends are ignored."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        peer.settimeout(left)
        try:
            if not peer.recv(1 << 16):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 30)


def feed(port: int, data: bytes) -> socket.socket:
    """A connection that has sent these bytes, as far as the server took them."""
    peer = dial(port)
    with contextlib.suppress(OSError):
        peer.sendall(data)
    return peer


# The remoting port ---------------------------------------------------------------------------------

HEADER = encode_frame(28, 1, {})
HOPELESS = {
    "noise": NOISE,
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n" + b" " * 1024,
    "negative length": struct.pack(">ii", -5, 10),
    "length 0": struct.pack(">ii", 0, 0),
    "length beyond the limit": struct.pack(">ii", MAX_FRAME + 1, 100),
    "header longer than the frame": struct.pack(">ii", 20, 100) + b"{" * 100,
    "header beyond the limit": struct.pack(">ii", 4 + MAX_HEADER + 1, MAX_HEADER + 1)
    + b" " * (MAX_HEADER + 1),
    "no JSON": struct.pack(">ii", 24, 20) + b"{" * 20,
    "JSON of another kind": struct.pack(">ii", 11, 7) + b'["x",1]',
    "a number of 5,000 digits": struct.pack(">ii", 5013, 5009) + b'{"code":' + b"9" * 5000 + b"}",
    "no code": struct.pack(">ii", 17, 13) + b'{"opaque": 1}',
    "an unknown header type": struct.pack(">iI", 24, 7 << 24 | 20) + b"x" * 20,
    "a torn binary header": struct.pack(">iI", 24, 1 << 24 | 20) + b"\xff" * 20,
}


@pytest.mark.parametrize("data", HOPELESS.values(), ids=HOPELESS.keys())
def test_nonsense_on_the_remoting_port_is_closed_with_a_reason(group: BrokerGroup, data: bytes) -> None:
    with feed(group.master_port, data) as peer:
        source = f"{peer.getsockname()[0]}:{peer.getsockname()[1]}"
        assert is_closed_by(peer)
    wait_until(lambda: source in group.master.log_text(), 60, "the log names the peer")


@pytest.mark.parametrize("size", [1, 4, 7, 8, len(HEADER) - 1])
def test_a_truncated_request_is_forgotten(group: BrokerGroup, size: int) -> None:
    with feed(group.master_port, HEADER[:size]) as peer:
        peer.shutdown(socket.SHUT_WR)
        assert is_closed_by(peer)


def test_a_slow_request_is_served(group: BrokerGroup) -> None:
    with group.master_client() as client:
        for at in range(len(HEADER)):
            client.socket.sendall(HEADER[at : at + 1])
            time.sleep(0.002)
        assert client.answer().code == 0


def test_announced_frames_cost_no_memory_before_they_come(group: BrokerGroup) -> None:
    before = group.master.memory()
    claim = struct.pack(">ii", MAX_FRAME, 100) + b"{" * 10
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(feed(group.master_port, claim))
        with group.master_client() as client:
            client.runtime_info()
        assert group.master.memory() - before < MEMORY_GROWTH


def test_a_thousand_scanner_connections_leave_nothing_behind(group: BrokerGroup) -> None:
    before = group.master.memory()
    for number in range(1000):
        feed(group.ha_port if number % 2 else group.master_port, b"").close()
    with group.master_client() as client:
        client.runtime_info()
    assert group.master.memory() - before < MEMORY_GROWTH


def test_waiting_pulls_of_a_client_that_never_reads_cost_bounded_memory(group: BrokerGroup) -> None:
    pull = {"consumerGroup": "g", "topic": "Waited", "queueId": "0", "queueOffset": "1", "maxMsgNums": "32"}
    pull |= {"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "30000", "subscription": "*"}
    frames = b"".join(encode_frame(11, number, pull | {"subVersion": "0"}) for number in range(2000))
    with dial(group.master_port) as peer, group.master_client() as client:
        assert client.send("Waited", b"the first").code == 0
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(frames)
        client.runtime_info()
        before = group.master.memory()
        for _ in range(4):
            assert client.send("Waited", bytes(60_000)).code == 0
        client.runtime_info()
        assert group.master.memory() - before < MEMORY_GROWTH


def test_a_client_that_never_reads_costs_bounded_memory(group: BrokerGroup) -> None:
    before = group.master.memory()
    with dial(group.master_port) as peer:
        peer.settimeout(2)
        with contextlib.suppress(OSError):
            for _ in range(2000):  # each answer is some kilobytes: far more than all socket buffers hold
                peer.sendall(HEADER * 50)
        assert group.master.memory() - before < MEMORY_GROWTH


def test_an_illegal_send_is_answered_and_the_connection_stays(group: BrokerGroup) -> None:
    with group.master_client() as client:
        fields = send_fields("Bystander", 0, {})
        for broken in ({"e": "x"}, {"g": "never"}, {"b": "no/such topic!"}, {"f": ""}):
            assert client.call(310, {**fields, **broken}, b"x").code not in (0, 11, 12), broken
        missing = {name: value for name, value in fields.items() if name != "e"}
        assert client.call(310, missing, b"x").code == 1
        assert client.call(320, send_fields("Bystander", 0, {}, batch=True), NOISE[:1000]).code != 0
        assert client.call(9999, {}).code == 3
        assert client.send("Bystander", b"fine").code == 0


# The HA port ---------------------------------------------------------------------------------------


def report(offset: int) -> bytes:
    return struct.pack(">q", offset)


FALSE_REPORTS = {
    "negative": -1,
    "above the master's end": 1 << 40,
    "text": int.from_bytes(b"GET / HT", "big"),
}


@pytest.mark.parametrize("offset", FALSE_REPORTS.values(), ids=FALSE_REPORTS.keys())
def test_B153_B155_a_false_first_report_is_closed_and_completes_nothing(
    group: BrokerGroup, offset: int
) -> None:
    group.slave.stop()
    try:
        with feed(group.ha_port, report(offset)) as peer, group.master_client() as client:
            assert is_closed_by(peer)
            assert client.send("Bystander", b"waits for a slave").code in (11, 12)
    finally:
        group.slave.start()


def test_B153_an_ack_above_what_was_sent_is_closed_and_completes_nothing(group: BrokerGroup) -> None:
    group.slave.stop()
    try:
        end = group.master_end()
        with feed(group.ha_port, report(end)) as peer, group.master_client() as client:
            time.sleep(0.3)
            peer.sendall(report(end + 100_000))
            assert is_closed_by(peer)
            assert client.send("Bystander", b"waits for a slave").code in (11, 12)
    finally:
        group.slave.start()


def test_noise_on_the_ha_port_is_closed(group: BrokerGroup) -> None:
    with feed(group.ha_port, b"\xff" + NOISE) as peer:
        assert is_closed_by(peer)


def test_connections_without_a_report_are_limited(group: BrokerGroup) -> None:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(feed(group.ha_port, b"abc")) for _ in range(MAX_UNREPORTED + 20)]
        deadline = time.monotonic() + HOUSEKEEPING / 2
        assert all(is_closed_by(peer, deadline - time.monotonic()) for peer in peers[:20]), "the oldest go"


def test_B30_a_flood_of_reports_is_one_report(group: BrokerGroup) -> None:
    with feed(group.ha_port, report(group.master_end()) * 131_073) as peer:
        time.sleep(0.5)
        peer.sendall(report(group.master_end())[:3])
        assert not is_closed_by(peer, 0.5)


def test_B47_a_slave_that_never_reads_costs_bounded_memory(group: BrokerGroup) -> None:
    with dial(group.ha_port) as peer, group.master_client() as client:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(report(group.master_end()))
        before = group.master.memory()
        for _ in range(100):
            assert client.send("Bulk", bytes(MIB // 2)).code == 0
        assert group.master.memory() - before < MEMORY_GROWTH


# A false master ------------------------------------------------------------------------------------


class FalseMaster:
    """Accepts our slave, reads its first report, answers with `data`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(60)
        self.port = int(self.listener.getsockname()[1])

    def serve(self) -> tuple[int, socket.socket]:
        """One connection; the offset reported first."""
        peer, _ = self.listener.accept()
        peer.settimeout(60)
        (offset,) = struct.unpack(">q", peer.recv(8, socket.MSG_WAITALL))
        with contextlib.suppress(OSError):
            peer.sendall(self.data)
        return offset, peer


def frame(offset: int, body: bytes, size: int | None = None) -> bytes:
    return struct.pack(">qi", offset, len(body) if size is None else size) + body


FALSE_FRAMES = {
    "a negative size": frame(0, b"", -1),
    "an impossible size": frame(0, b"", 1 << 30),
    "an offset inside a file": frame(12345, b"x" * 100),
    "a negative offset": frame(-8, b"x" * 100),
    "noise": b"\xff" + NOISE,
}


@pytest.mark.parametrize("data", FALSE_FRAMES.values(), ids=FALSE_FRAMES.keys())
def test_B61_B155_a_slave_drops_a_master_that_sends_nonsense(tmp_path: Path, data: bytes) -> None:
    master = FalseMaster(data)
    with BrokerGroup(tmp_path, link_port=master.port) as group:
        group.slave.start()
        offset, peer = master.serve()
        assert offset == 0
        assert is_closed_by(peer)
        assert log_end_of(group.slave_port) == 0
        assert group.slave.running
        assert "Traceback" not in group.slave.log_text()
