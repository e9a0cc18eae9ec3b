"""The failure table (behaviours.md, section 10), rows B136 to B145: a side is lost, and consumers move.

B138, B139 and B145 share two broker groups, a master with a slave and a master alone; each row begins with all
of them up. Rows that were system tests of replication already stay where they are: B136, B140, B142 and B143 in
test_replication_offsets.py, B144 in test_replication_silence.py. tests/unit/test_behaviours.py sees to it that no
row is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.brokergroup import OURS, SMALL_STORE, BrokerGroup, log_end_of
from testbed.processes import ServerProcess, all_stopped, twistd, wait_until, write_conf
from testbed.remotingclient import RemotingClient
from testbed.storefiles import (
    check_queues,
    expected_queues,
    first_difference,
    log_end,
    log_files,
    read_records,
)
from tests.support.clusterclient import RoutedConsumer, RoutedProducer, route_of
from tests.support.logcommand import log_command
from tests.support.parting import put
from tests.support.producer import TOPICS, Producer, broken_promises
from tests.system.test_replication_silence import NO_SLAVE, OK, client_side

SERVICE_NOT_AVAILABLE = 14
VIEW_MESSAGE = 33
SYNC_SECONDS = 120.0  # a slave copies its master's tables every 10 s
BACK_SECONDS = 60.0  # until a returned master's slave has linked, synced and got what its slave knows


# B137, B141: stores ---------------------------------------------------------------------------------


def test_B137_a_sync_master_lost_with_its_disk_leaves_every_send_ok(tmp_path: Path) -> None:
    with BrokerGroup(tmp_path, namesrv_kind=OURS) as group:
        assert group.namesrv is not None
        group.namesrv.start()
        group.master.start()
        with group.master_client() as client:
            assert {client.send(topic, b"first").code for topic in TOPICS} == {NO_SLAVE}
        group.slave.start()  # and asks for the topics as soon as it has linked
        group.wait_linked()
        with Producer(group.master_port, pace=500) as producer:
            with group.slave_client() as client:
                wait_until(
                    lambda: client.pull("LoadA", 0, 0).code == OK, SYNC_SECONDS, "the slave has the topics"
                )
            producer.wait_acked(200)
            group.master.kill()
            shutil.rmtree(group.master_store)
        with group.slave_client() as client:
            wait_until(
                lambda: client.runtime_info()["dispatchBehindBytes"] == "0",
                60,
                "the slave's queues are whole",
            )
            for (topic, queue), entries in expected_queues(group.slave_store).items():
                if topic.startswith("Load"):
                    assert client.max_queue_offset(topic, queue) == len(entries)
                    assert client.pull(topic, queue, len(entries) - 1).code == OK
        group.slave.stop()
        assert broken_promises(producer, group.slave_store) == [], producer.story()


def test_B140_a_tail_lost_and_rewritten_is_noticed_before_anything_is_copied(tmp_path: Path) -> None:
    """The worse half of the row: offsets match, bytes differ, and the HA link can't tell; the slave asks for its
    last record. The other half is in test_replication_offsets.py."""
    with BrokerGroup(tmp_path) as group:
        group.start()
        put(group.master_port, b"common", 1)
        (lost,) = put(group.master_port, b"lost", 1)
        group.wait_caught_up()
        group.stop()
        cut(group.master_store, lost)
        group.master.start()
        assert group.master_end() == lost
        with group.master_client() as client:
            assert client.send("Parted", b"anew").physical == lost
            fresh = [client.send("Parted", b"more").physical for _ in range(3)]
        end = log_end(group.slave_store)
        assert lost < end < fresh[-1]
        group.slave.start()
        told = "the two have diverged"
        wait_until(lambda: told in client_side(group.slave_port)["problem"], 60, "the slave says so")
        assert client_side(group.slave_port)["state"] == "offset mismatch"
        for port, body in ((group.master_port, b"anew"), (group.slave_port, b"lost")):
            with RemotingClient("127.0.0.1", port) as client:
                (found,) = read_records(client.call(VIEW_MESSAGE, {"offset": str(lost)}).expect(OK).body)
                assert found.body == body
        group.stop()
        assert log_end(group.slave_store) == end
        assert log_command(1, "compare", group.master_store, group.slave_store)["equalTo"] == lost


def cut(store: Path, offset: int) -> None:
    """What a disk does that hadn't written the rest yet; the log is one file here."""
    (file,) = [path for start, path in log_files(store) if start == 0]
    data = file.read_bytes()
    file.write_bytes(data[:offset] + bytes(len(data) - offset))


@dataclass
class Parted:
    """Two logs that have grown apart: the old master's, that nobody runs, and its slave's, that was promoted.

    - common: where both ended, and what they have alike
    - tail, fresh: offsets of what was put since to the one and to the other
    """

    group: BrokerGroup
    promoted: ServerProcess
    returned: ServerProcess
    common: int
    tail: list[int]
    fresh: list[int]

    def copy_again(self) -> None:
        """The old master copies what the promoted one has; both stop then, and are the same."""
        group = self.group
        self.returned.start()
        put(group.slave_port, b"copied again", 1)
        wait_until(
            lambda: log_end_of(self.returned.port) == log_end_of(self.promoted.port), 60, "the copy is whole"
        )
        self.promoted.stop()
        self.returned.stop()
        assert first_difference(group.slave_store, group.master_store, log_end(group.slave_store)) is None
        assert check_queues(group.master_store) == check_queues(group.slave_store)


@contextmanager
def parted_logs(folder: Path, fresh: int) -> Iterator[Parted]:
    """fresh: messages that the promoted slave gets."""
    with BrokerGroup(folder, role="ASYNC_MASTER", slave_settings={"haFirstSync": "minOffset"}) as group:
        group.start()
        common = group.wait_caught_up()
        group.slave.kill()
        tail = put(group.master_port, b"never copied", 60)
        group.master.kill()
        promoted = role_of(group, "promoted", "hamaster", group.slave_port, group.slave_store)
        returned = role_of(group, "returned", "haslave", group.master_port, group.master_store)
        with all_stopped(promoted, returned):
            promoted.start()
            put_there = put(group.slave_port, b"after the promotion", fresh)
            assert min(tail) == min(put_there) == common, "the logs have not grown apart"
            yield Parted(group, promoted, returned, common, tail, put_there)


def test_B141_a_promoted_slaves_old_master_is_refused_and_joins_again_by_a_full_copy(tmp_path: Path) -> None:
    """Both logs have grown apart. Nothing is merged and nothing cut; the operator keeps the old store aside and
    gives that host an empty one (B160)."""
    with parted_logs(tmp_path, fresh=20) as parted:
        group, returned, fresh = parted.group, parted.returned, parted.fresh
        before = log_end(group.master_store)
        returned.start()
        problem = f"the master's at {log_end(group.slave_store)}"
        wait_until(lambda: problem in client_side(returned.port)["problem"], 60, "the old master is told")
        with RemotingClient("127.0.0.1", returned.port) as client:
            assert client.send("Parted", b"x").code == SERVICE_NOT_AVAILABLE
        assert log_end(group.master_store) == before
        assert log_end(group.slave_store) == max(fresh) + max(fresh) - sorted(fresh)[-2]

        returned.stop()
        kept = group.folder / "kept"
        group.master_store.rename(kept)
        parted.copy_again()
        assert log_end(kept) == before, "what was never copied is still there to be looked at"


def test_B160_a_promoted_slaves_old_master_joins_again_once_it_is_cut_to_what_both_have(
    tmp_path: Path,
) -> None:
    # 200: past the old master's end, so that offsets fit (B140)
    with parted_logs(tmp_path, fresh=200) as parted:
        stores = parted.group.master_store, parted.group.slave_store
        assert log_command(1, "compare", *stores)["equalTo"] == parted.common
        plan = log_command(0, "cut", stores[0], "--at", parted.common, "--yes")
        assert (plan["offset"], plan["records"]) == (parted.common, len(parted.tail))
        assert Path(plan["sideFile"]).read_bytes().count(b"never copied") == len(parted.tail)

        parted.copy_again()
        assert log_command(0, "compare", *stores)["equalTo"] == log_end(stores[1])


def role_of(group: BrokerGroup, name: str, command: str, port: int, store: Path) -> ServerProcess:
    """The broker of a port and store in another role, told of nobody but the other one."""
    settings = {**group.full_slave_settings(), "listenPort": port, "storePathRootDir": store}
    settings["storePathCommitLog"] = store / "commitlog"
    settings["haMasterAddress"] = f"127.0.0.1:{group.slave_port + 1}"
    if command == "hamaster":
        settings |= {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
        del settings["haMasterAddress"]
    conf = write_conf(group.folder / f"{name}.conf", settings)
    return twistd(command, name, group.folder, conf, port)


# B138, B139, B145: consumers -----------------------------------------------------------------------


@dataclass
class TwoGroups:
    """broker-a with a slave, broker-b without, one name server."""

    a: BrokerGroup
    b: BrokerGroup

    @property
    def namesrv_port(self) -> int:
        return self.a.namesrv_port

    def ids(self, name: str) -> set[int]:
        """Broker ids that clients are told of."""
        route = route_of(self.namesrv_port, "TBW102")
        return set(route.ports.get(name, {})) if route else set()

    def ready(self) -> None:
        for server in (self.a.namesrv, self.a.master, self.a.slave, self.b.master):
            assert server is not None
            if not server.running:
                server.start()
        self.a.wait_linked()
        wait_until(lambda: self.ids("broker-a") == {0, 1}, 60, "broker-a is registered")
        wait_until(lambda: self.ids("broker-b") == {0}, 60, "broker-b is registered")

    def kill_master_a(self) -> None:
        self.a.master.kill()
        wait_until(lambda: 0 not in self.ids("broker-a"), 60, "the name server has dropped the dead master")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoGroups]:
    folder = tmp_path_factory.mktemp("loss")
    settings = {**SMALL_STORE, "registerNameServerPeriod": 10_000}
    with BrokerGroup(folder / "a", namesrv_kind=OURS, settings=settings) as a:
        told = {**settings, "namesrvAddr": f"127.0.0.1:{a.namesrv_port}"}
        with BrokerGroup(folder / "b", role="ASYNC_MASTER", settings=told, name="broker-b") as b:
            yield TwoGroups(a, b)
            for server in (a.master, a.slave, b.master):
                assert "Traceback" not in server.log_text()


@pytest.fixture
def groups(shared: TwoGroups) -> TwoGroups:
    shared.ready()
    return shared


class Story:
    """A topic with a producer over all masters and one consumer group; messages are numbered."""

    def __init__(self, groups: TwoGroups, topic: str) -> None:
        self.groups, self.topic = groups, topic
        self.producer = RoutedProducer(groups.namesrv_port, topic)
        self.consumer = self.new_consumer()
        self.sent: list[bytes] = []
        self.seen: list[bytes] = []

    def new_consumer(self) -> RoutedConsumer:
        return RoutedConsumer(self.groups.namesrv_port, self.topic, f"group-{self.topic}")

    def send(self, count: int) -> set[str]:
        """That many messages, all stored; the brokers that took them."""
        takers = set()
        for _ in range(count):
            self.sent.append(b"%d" % len(self.sent))
            name, _ = self.producer.send(self.sent[-1])
            takers.add(name)
        return takers

    def read(self, seconds: float = 60.0) -> None:
        """Until the consumer has had as many messages as were sent."""
        self.seen += [
            message.body for message in self.consumer.poll_until(len(self.sent) - len(self.seen), seconds)
        ]

    def slave_progress(self) -> list[int | None]:
        return [self.consumer.committed(self.groups.a.slave_port, queue) for queue in range(4)]

    def master_progress(self) -> list[int | None]:
        return [self.consumer.committed(self.groups.a.master_port, queue) for queue in range(4)]

    def create(self) -> None:
        """The topic on both brokers: one that a first send creates is only where that send went."""
        for port in (self.groups.a.master_port, self.groups.b.master_port):
            self.sent.append(b"%d" % len(self.sent))
            with RemotingClient("127.0.0.1", port) as client:
                assert client.send(self.topic, self.sent[-1]).code == OK

        def on_both() -> bool:
            route = route_of(self.groups.namesrv_port, self.topic)
            return route is not None and len(route.queues) == 2

        wait_until(on_both, 60, "the name server has the topic's route to both")

    def wait_synced(self) -> None:
        """Until the slave has just asked for the tables: its next round is 10 s away."""
        marker = RoutedConsumer(self.groups.namesrv_port, self.topic, f"marker-{self.topic}")
        marker.positions = dict(self.consumer.positions)
        marker.commit()
        a = self.groups.a
        wait_until(
            lambda: all(
                marker.committed(a.slave_port, queue) == marker.committed(a.master_port, queue) is not None
                for queue in range(4)
            ),
            SYNC_SECONDS,
            "the slave has the tables",
        )

    def begin(self) -> None:
        """Some messages on both brokers, read and committed, and the slave knows of it."""
        self.create()
        assert self.send(24) == {"broker-a", "broker-b"}
        self.read()
        self.consumer.commit()
        self.groups.a.slave.restart()  # it asks for the tables as soon as it has linked
        wait_until(
            lambda: self.slave_progress() == self.master_progress() != [None] * 4,
            SYNC_SECONDS,
            "the slave knows the group's progress",
        )


def test_B138_with_the_master_dead_others_take_sends_and_the_slave_serves_reads(groups: TwoGroups) -> None:
    story = Story(groups, "B138")
    story.begin()
    story.send(24)
    groups.a.wait_caught_up()
    groups.kill_master_a()
    story.read()
    assert groups.a.slave_port in story.consumer.served_by
    assert story.send(8) == {"broker-b"}
    story.read()
    assert sorted(story.seen) == sorted(story.sent), "lost, or read twice"
    before = story.slave_progress()
    story.consumer.commit()
    after = story.slave_progress()
    assert after != before, "the slave keeps no progress"
    assert after == [story.consumer.positions["broker-a", queue] for queue in range(4)]
    with groups.a.slave_client() as client:
        assert client.send(story.topic, b"x").code == SERVICE_NOT_AVAILABLE
    assert groups.ids("broker-a") == {1}, "nobody was promoted"


def test_B139_a_returned_master_takes_sends_serves_reads_and_learns_the_slaves_progress(
    groups: TwoGroups,
) -> None:
    """Two brokers of ours keep the slave's progress (B162); only beside a RocketMQ broker is it overwritten."""
    story = Story(groups, "B139")
    story.begin()
    story.send(24)
    groups.a.wait_caught_up()
    groups.kill_master_a()
    story.read()
    story.consumer.commit()
    on_slave = story.slave_progress()

    groups.ready()
    assert "broker-a" in story.send(8)
    story.read()
    assert groups.a.master_port in story.consumer.served_by
    assert groups.a.slave_port not in story.consumer.served_by
    assert sorted(story.seen) == sorted(story.sent), "a living consumer lost something, or read it twice"
    wait_until(
        lambda: story.master_progress() == on_slave, BACK_SECONDS, "the master has the slave's progress"
    )
    assert story.slave_progress() == on_slave, "the slave's progress went backwards"


def test_B145_progress_newer_than_the_last_sync_is_repeated_and_nothing_skipped(groups: TwoGroups) -> None:
    story = Story(groups, "B145")
    story.begin()
    known = story.slave_progress()
    story.send(16)
    story.read()
    groups.a.wait_caught_up()
    story.wait_synced()  # so that no round comes between the next two
    story.consumer.commit()
    groups.kill_master_a()
    unsynced = sum(story.consumer.positions["broker-a", queue] - (known[queue] or 0) for queue in range(4))
    assert unsynced > 0

    story.consumer = story.new_consumer()
    again = [message.body for message in story.consumer.poll_until(unsynced, 60)]
    assert len(again) == unsynced, "it repeats what came after the last sync, and no more"
    assert set(again) <= set(story.sent[-16:])
    assert story.consumer.poll() == []
