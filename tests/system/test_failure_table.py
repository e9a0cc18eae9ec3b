"""The failure table (behaviours.md, section 10), rows B126 to B135: link and slave fail, the master lives.

One SYNC_MASTER with its slave and a proxy as the wire between them, shared by all rows; each begins with both
up and linked, and `pair` starts again what the row before has killed. Rows where a side is lost, and where
consumers go meanwhile, are in test_failure_table_loss.py; where a slave may begin (B142, B143) and what
silence costs (B144) in test_replication_offsets.py and test_replication_silence.py.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, SMALL_STORE, BrokerGroup
from testbed.processes import wait_until
from testbed.remotingclient import (
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE_V2,
    RemotingClient,
    RemotingFailure,
    encode_inner,
    send_fields,
    send_result,
)
from testbed.storefiles import (
    QUEUE_ENTRY,
    StoredMessage,
    check_queues,
    first_difference,
    log_files,
    read_records,
)
from tests.support.linkproxy import BACK, TOWARDS, LinkProxy
from tests.support.soak import in_soak
from tests.system.test_replication_silence import links

TOPIC = "Row"
OK, NO_SLAVE, SLAVE_TIMEOUT = 0, 11, 12
SLAVE_WAIT = 8.0  # seconds: slaveTimeout here, longer than a busy machine stands still most of the time
AT_ONCE = SLAVE_WAIT - 0.5  # seconds: who was answered by then has waited for no slave
STALL = 60.0  # seconds that such a machine may add to SLAVE_WAIT
FALL_BEHIND = 1 << 20  # bytes: haSlaveFallbehindMax here, so that B135 needs no 256 MiB
SYNC_SECONDS = 120.0  # a slave asks for topics every 10 s
STORE_RETRY_SECONDS = 60.0  # a slave whose store took nothing dials again within 5 s
REPORTS, LOG = TOWARDS, BACK  # what the two directions of the link carry


class Pair:
    """The shared cluster and the verbs of the rows."""

    def __init__(self, group: BrokerGroup, link: LinkProxy) -> None:
        self.group, self.link = group, link

    def ready(self) -> None:
        """Both sides up, linked, and without faults."""
        self.link.flow()
        for server in (self.group.namesrv, self.group.master, self.group.slave):
            assert server is not None
            if not server.running:
                server.start()
        self.group.wait_linked()

    def begin(self) -> int:
        """Queue offset of the next message."""
        with self.group.master_client() as client:
            return client.max_queue_offset(TOPIC, 0)

    def put(self, body: bytes, **properties: str) -> tuple[int, float]:
        """Code, and the seconds it took."""
        with self.group.master_client() as client:
            begun = time.monotonic()
            return client.send(TOPIC, body, 0, properties).code, time.monotonic() - begun

    def wait_ok(self, seconds: float = 60.0) -> None:
        wait_until(lambda: self.put(b"probe")[0] == OK, seconds, "puts are replicated again")

    def wait_copied(self) -> None:
        """Until the slave's log ends where the master's does."""
        wait_until(lambda: self.group.slave_end() == self.group.master_end(), 60, "the slave has it")

    def wait_unlinked(self) -> None:
        """Until the master has heard that its slave is gone, which travels through the proxy."""
        wait_until(lambda: not links(self.group.master_port), 60, "the master misses its slave")

    def on_master(self, begin: int) -> list[bytes]:
        return [message.body for message in pulled(self.group.master_port, begin)]

    def on_slave(self, begin: int) -> list[bytes]:
        return [message.body for message in pulled(self.group.slave_port, begin)]

    def assert_same_logs(self) -> None:
        """Byte for byte, up to the common end."""
        end = self.group.wait_caught_up()
        assert first_difference(self.group.master_store, self.group.slave_store, end) is None


def pulled(port: int, begin: int) -> list[StoredMessage]:
    """What a consumer reads of queue 0 from `begin` on, without the probes."""
    found: list[StoredMessage] = []
    with RemotingClient("127.0.0.1", port) as client:
        while (answer := client.pull(TOPIC, 0, begin)).code == OK:
            found += read_records(answer.body)
            begin = int(answer.ext["nextBeginOffset"])
    return [message for message in found if not message.body.startswith(b"probe")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    settings = {
        **SMALL_STORE,
        "haSlaveFallbehindMax": FALL_BEHIND,
        "slaveTimeout": int(SLAVE_WAIT * 1000),
    }
    with (
        LinkProxy(0) as link,
        BrokerGroup(
            tmp_path_factory.mktemp("table"), namesrv_kind=OURS, settings=settings, link_port=link.port
        ) as group,
    ):
        link.target = group.ha_port
        pair = Pair(group, link)
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        assert (
            pair.put(b"probe")[0] == NO_SLAVE
        )  # makes the topic, which the slave asks for once it has linked
        pair.ready()
        with group.slave_client() as client:
            wait_until(lambda: client.pull(TOPIC, 0, 0).code == OK, SYNC_SECONDS, "the slave has the topic")
        yield pair
        link.flow()
        for server in (group.slave, group.master):
            assert "Traceback" not in server.log_text()


@pytest.fixture
def pair(shared: Pair) -> Pair:
    shared.ready()
    return shared


@contextmanager
def no_writes_beyond(pid: int, size: int) -> Iterator[None]:
    """A disk that takes nothing more: the process's writes beyond `size` bytes of any file fail, and one
    across that line is cut short."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def fill_to(pair: Pair, position: int) -> int:
    """Puts until the log's end lies in [position, position + 64 KiB] of its file; that place in the file."""
    size = int(str(SMALL_STORE["mappedFileSizeCommitLog"]))
    while not position <= (at := pair.group.master_end() % size) <= position + (64 << 10):
        assert pair.put(b"probe" * 12_000)[0] == OK
    return at


def test_B126_an_ack_that_comes_late_or_with_a_later_puts_is_ok_and_none_is_12(pair: Pair) -> None:
    begin = pair.begin()
    with pair.group.master_client() as client:

        def post(body: bytes) -> int:
            return client.post(SEND_MESSAGE_V2, send_fields(TOPIC, 0, {}), body)

        pair.link.stall(REPORTS)
        late = post(b"late")
        time.sleep(0.5)
        pair.link.flow()
        assert client.answer(late).code == OK

        pair.link.lose(REPORTS)
        lost = post(b"lost")
        pair.wait_copied()
        pair.link.flow()
        later = post(b"later")
        assert client.answer(later).code == OK and client.answer(lost).code == OK

        pair.link.lose(REPORTS)
        assert client.answer(post(b"never")).code == SLAVE_TIMEOUT
    pair.wait_copied()
    wait_until(lambda: len(pair.on_slave(begin)) == 4, 60, "the slave's queue has all four")
    assert pair.on_master(begin) == pair.on_slave(begin) == [b"late", b"lost", b"later", b"never"]


def test_B127_the_master_dies_before_the_ack_and_the_retry_is_a_duplicate(pair: Pair) -> None:
    begin, unique = pair.begin(), {"UNIQ_KEY": "7F00000100010000000000000000B127"}
    pair.link.stall(REPORTS)
    with pair.group.master_client() as client:
        sent = client.post(SEND_MESSAGE_V2, send_fields(TOPIC, 0, unique), b"unacked")
        pair.wait_copied()
        pair.group.master.kill()
        with pytest.raises((OSError, RemotingFailure)):
            client.answer(sent)
    wait_until(lambda: pair.on_slave(begin), 60, "the slave serves it")
    assert pair.on_slave(begin) == [b"unacked"], "a message whose send failed can be read all the same"
    pair.ready()
    assert pair.put(b"unacked", **unique)[0] == OK
    pair.wait_copied()
    wait_until(lambda: len(pulled(pair.group.slave_port, begin)) == 2, 60, "the slave has the retry")
    keys = [message.property("UNIQ_KEY") for message in pulled(pair.group.slave_port, begin)]
    assert keys == [unique["UNIQ_KEY"]] * 2


def test_B128_the_slaves_host_dies_each_put_counts_as_stored_and_it_catches_up(pair: Pair) -> None:
    begin = pair.begin()
    assert pair.put(b"before")[0] == OK
    pair.link.stall()  # a cable pulled: connected for all the master knows
    code, seconds = pair.put(b"unplugged")
    assert code == SLAVE_TIMEOUT and SLAVE_WAIT - 0.1 < seconds < SLAVE_WAIT + STALL
    pair.group.slave.kill()
    pair.link.cut()
    pair.wait_unlinked()
    code, seconds = pair.put(b"dead")
    assert code == NO_SLAVE and seconds < AT_ONCE
    assert pair.on_master(begin) == [b"before", b"unplugged", b"dead"]
    pair.ready()
    pair.assert_same_logs()
    assert pair.on_slave(begin) == [b"before", b"unplugged", b"dead"]


def test_B129_what_the_slave_cant_store_is_12_and_nothing_later_overtakes_it(pair: Pair) -> None:
    at = fill_to(pair, 300 << 10)
    begin, end = pair.begin(), pair.group.slave_end()
    with no_writes_beyond(pair.group.slave.pid, at), pair.group.master_client() as client:
        posted = [client.post(SEND_MESSAGE_V2, send_fields(TOPIC, 0, {}), body) for body in (b"m1", b"m2")]
        first, second = (client.answer(each).code for each in posted)
        assert first == SLAVE_TIMEOUT
        assert second in (SLAVE_TIMEOUT, NO_SLAVE), "it may come when the slave has hung up already"
        assert pair.group.slave_end() == end and pair.on_slave(begin) == []
    assert pair.on_master(begin) == [b"m1", b"m2"]
    pair.wait_ok(STORE_RETRY_SECONDS)
    pair.assert_same_logs()
    assert pair.on_slave(begin) == [b"m1", b"m2"]


def test_B130_a_log_without_its_queue_entries_is_dispatched_again_and_copying_goes_on(pair: Pair) -> None:
    begin = pair.begin()
    bodies = [b"%d" % number for number in range(20)]
    assert {pair.put(body)[0] for body in bodies} == {OK}
    pair.group.wait_caught_up()
    pair.group.slave.kill()
    forget_entries(pair.group.slave_store, begin + 5)
    pair.wait_unlinked()
    assert pair.put(b"meanwhile")[0] == NO_SLAVE
    pair.ready()
    pair.assert_same_logs()
    assert pair.on_slave(begin) == [*bodies, b"meanwhile"]


def forget_entries(store: Path, first: int) -> None:
    """As if the broker had died between append and dispatch: no queue entry from `first` on, no index."""
    for file in (store / "consumequeue" / TOPIC / "0").iterdir():
        data, cut = file.read_bytes(), first * QUEUE_ENTRY.size - int(file.name)
        if cut < len(data):
            file.write_bytes(data[: max(cut, 0)] + bytes(len(data) - max(cut, 0)))
    for file in (store / "index").iterdir():
        file.unlink()


def test_B131_a_frame_with_one_message_too_many_is_stored_whole_or_not_at_all(pair: Pair) -> None:
    at = fill_to(pair, 500 << 10)
    begin, end = pair.begin(), pair.group.slave_end()
    bodies = [bytes([65 + number]) * 1000 for number in range(3)]
    batch = b"".join(encode_inner(body, b"") for body in bodies)
    # The line is inside the second record: the first would fit, and part of the second is even written.
    with no_writes_beyond(pair.group.slave.pid, at + 1500), pair.group.master_client() as client:
        answer = client.call(SEND_BATCH_MESSAGE, send_fields(TOPIC, 0, {}, batch=True), batch)
        assert answer.code == SLAVE_TIMEOUT
        assert len(send_result(answer).message_id.split(",")) == 3, "stored on the master counts as stored"
        assert pair.group.slave_end() == end and pair.on_slave(begin) == []
    assert pair.on_master(begin) == bodies
    pair.wait_ok(STORE_RETRY_SECONDS)
    pair.assert_same_logs()
    assert pair.on_slave(begin) == bodies


HALVES: dict[str, Callable[[int], int]] = {
    "inside the header": lambda size: 7,
    "behind the header": lambda size: 12,
    "inside the body": lambda size: 12 + 91,
    "before the last byte": lambda size: 12 + size - 1,
}


TRIED = [
    in_soak(half, why="a body is cut off elsewhere, too") if name == "before the last byte" else half
    for name, half in HALVES.items()
]


@pytest.mark.parametrize("half", TRIED, ids=HALVES.keys())
def test_B132_half_a_frame_is_dropped_when_the_master_dies(pair: Pair, half: Callable[[int], int]) -> None:
    assert pair.put(b"whole")[0] == OK
    pair.wait_copied()
    begin, end = pair.begin(), pair.group.slave_end()
    body = b"half" * 100
    size = 91 + len(body) + len(TOPIC) + len("CLUSTER\x01DefaultCluster")
    with pair.group.master_client() as client:
        quiet_link(pair)
        passed = pair.link.passed[LOG] + half(size)
        pair.link.stall_after(LOG, half(size))
        client.post(SEND_MESSAGE_V2, send_fields(TOPIC, 0, {}), body)
        wait_until(lambda: pair.group.master_end() > end, 60, "the master has it")
        wait_until(lambda: pair.link.passed[LOG] >= passed, 60, "half the frame has passed")
        pair.group.master.kill()
    pair.link.cut()
    assert pair.group.slave_end() == end and pair.on_slave(begin) == []
    pair.ready()
    pair.assert_same_logs()
    kept = pulled(pair.group.slave_port, begin)
    assert [(message.body, message.size) for message in kept] == [(body, size)], (
        "the master had it in its log"
    )


def quiet_link(pair: Pair) -> None:
    """Until a heartbeat has just passed: the next bytes of the log direction are a frame's."""
    before = pair.link.passed[LOG]
    wait_until(lambda: pair.link.passed[LOG] > before, 60, "a heartbeat")


def test_B133_a_put_that_times_out_is_stored_later_and_12_means_unknown(pair: Pair) -> None:
    begin = pair.begin()
    pair.link.stall(LOG)
    assert pair.put(b"12")[0] == SLAVE_TIMEOUT
    assert pair.on_master(begin) == [b"12"] and pair.on_slave(begin) == []
    pair.link.flow()
    wait_until(lambda: pair.on_slave(begin) == [b"12"], 60, "the slave has it after all")
    assert pair.on_master(begin) == [b"12"]


def test_B134_without_a_linked_slave_11_at_once_and_the_master_serves(pair: Pair) -> None:
    begin = pair.begin()
    pair.group.slave.stop()
    pair.wait_unlinked()
    code, seconds = pair.put(b"alone")
    assert code == NO_SLAVE and seconds < AT_ONCE
    assert pair.on_master(begin) == [b"alone"]


def test_B135_a_slave_too_far_behind_is_none_until_it_has_caught_up(pair: Pair) -> None:
    begin = pair.begin()
    pair.link.stall(LOG)
    bulk = b"probe" * 60_000
    for _ in range(FALL_BEHIND // len(bulk) + 1):
        assert pair.put(bulk, WAIT="false")[0] == OK
    code, seconds = pair.put(b"behind")
    assert code == NO_SLAVE and seconds < AT_ONCE
    assert len(links(pair.group.master_port)) == 1, "it's still linked"
    assert pair.on_master(begin)[-1] == b"behind"
    pair.link.flow()
    pair.wait_ok()
    pair.assert_same_logs()
    assert pair.on_slave(begin)[-1] == b"behind"


def test_all_rows_leave_whole_stores(pair: Pair) -> None:
    """What the rows above have done to the files of both sides, looked at when both have stopped."""
    end = pair.group.wait_caught_up()
    pair.group.slave.stop()
    pair.group.master.stop()
    group = pair.group
    assert first_difference(group.master_store, group.slave_store, end) is None
    assert check_queues(group.master_store) == check_queues(group.slave_store)
    assert log_files(group.master_store)[0][0] == log_files(group.slave_store)[0][0] == 0
