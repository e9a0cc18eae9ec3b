"""The reader against a real name server, master and slave of ours, and what happens to them meanwhile."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterable, Iterator
from operator import itemgetter

import pyarrow.compute as pc
import pytest

from hatwisted.clientcore.errors import BrokerGone, NoRoute, OffsetsGone
from hatwisted.metrics.exposition import KEPT
from hatwisted.pipeline import read_arrow
from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.decode import decode_buffer
from hatwisted.pipeline.remote.clusterreader import ClusterReader
from hatwisted.pipeline.remote.queuepull import PullOptions
from testbed.brokergroup import OURS, QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until
from testbed.remotingclient import SEND_BATCH_MESSAGE, encode_inner, send_fields
from tests.support.clustermessages import (
    PATIENCE,
    STORED,
    bodies_of,
    fill,
    ranges_of,
    read_all,
    send_batches,
    settings_of,
    wait_for_route,
    wait_for_slave,
)
from tests.support.figures import Figures

PLANNING = 100_000
"""Bytes at most that are looked at beside what is read, to find out how large messages are."""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """Left running by every test that takes it. It filters by properties, where a reader asks for it."""
    settings = {**SMALL_STORE, **QUICK_SYNC, "enablePropertyFilter": True, "metricsPort": free_port()}
    with BrokerGroup(
        tmp_path_factory.mktemp("cluster"),
        namesrv_kind=OURS,
        settings=settings,
        slave_settings={"metricsPort": free_port()},
    ) as running:
        running.start()
        yield running


@pytest.fixture(scope="module")
def broken_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerGroup]:
    """For tests that break something; its master soon misses a slave."""
    settings = {**SMALL_STORE, **QUICK_SYNC, "slaveTimeout": 1500}
    with BrokerGroup(tmp_path_factory.mktemp("broken"), namesrv_kind=OURS, settings=settings) as running:
        running.start()
        yield running


@pytest.fixture
def own_group(broken_group: BrokerGroup) -> BrokerGroup:
    """All of it runs again. Its log has what earlier tests have sent; each has a topic of its own."""
    killed = [server for server in (broken_group.master, broken_group.slave) if not server.running]
    for server in killed:
        server.start()
    if killed:
        broken_group.wait_linked()
        broken_group.wait_registered(broken_group.master_port, broken_group.slave_port)
    return broken_group


def test_rows_are_those_of_the_store(group: BrokerGroup) -> None:
    """Every column but `file`, from a slave over the network and from the master's files."""
    sent = fill(group, "Orders", 700, size=900)
    group.wait_caught_up()
    got = read_all(settings_of(group), "Orders")
    assert got.column_names == list(COLUMNS)
    assert got["body"].to_pylist() == [body for each in sent for body in each.bodies]
    columns = [name for name in COLUMNS if name != "file"]
    stored = read_arrow(str(group.master_store), columns).read_all()
    stored = stored.filter(pc.equal(stored["topic"], "Orders")).sort_by(
        [("queue_id", "ascending"), ("queue_offset", "ascending")]
    )
    same = [name for name in columns if name != "broker"]
    assert got.select(same).equals(stored.select(same))
    assert set(got["broker"].to_pylist()) == {group.name}
    assert got["file"].null_count == got.num_rows


def test_the_slave_is_read_and_the_master_spared(group: BrokerGroup) -> None:
    fill(group, "Spared", 500)
    wait_for_slave(group, "Spared")
    with ClusterReader(settings_of(group)) as cluster:
        wanted = ranges_of(cluster, "Spared")
    group.master.suspend()
    try:
        with ClusterReader(settings_of(group)) as cluster:
            rows = [batch.num_rows for each in wanted for batch in cluster.read(each, ["queue_offset"])]
    finally:
        group.master.resume()
    assert sum(rows) == 2000


def test_times_and_bounds(group: BrokerGroup) -> None:
    fill(group, "Timed", 50, queues=2)
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    with group.master_client() as client:
        for queue in range(2):
            send_batches(client, "Timed", queue, bodies_of(0, 30))
    group.wait_caught_up()
    with ClusterReader(settings_of(group)) as cluster:
        queues = cluster.queues(["Timed"])
        bounds = cluster.bounds(queues)
        found = cluster.offsets_at(queues, bounds, between)
        assert [(bounds[each].low, bounds[each].high) for each in queues] == [
            (0, 80),
            (0, 80),
            (0, 0),
            (0, 0),
        ]
        assert list(found.values()) == [50, 50, 0, 0]
        assert list(cluster.offsets_at(queues, bounds, 0).values()) == [0, 0, 0, 0]
        assert list(cluster.offsets_at(queues, bounds, between + 3_600_000).values()) == [80, 80, 0, 0]


def test_delayed_messages_where_they_wait_and_where_they_arrive(group: BrokerGroup) -> None:
    with group.master_client() as client:
        for number in range(40):
            client.send("Later", b"delayed %d" % number, number % 2, {"DELAY": "1"})
    wait_for_route(group, "Later")
    with ClusterReader(settings_of(group)) as cluster:
        wait_until(
            lambda: sum(each.end for each in ranges_of(cluster, "Later")) == 40, PATIENCE, "they arrive"
        )
    group.wait_caught_up()
    arrived = read_all(settings_of(group), "Later", columns=["body", "topic"])
    waited = read_all(settings_of(group), "SCHEDULE_TOPIC_XXXX", columns=["body", "topic", "queue_offset"])
    expected = {b"delayed %d" % number for number in range(40)}
    assert set(arrived["body"].to_pylist()) == expected
    assert {body for body in waited["body"].to_pylist() if body.startswith(b"delayed")} == expected
    assert set(waited["topic"].to_pylist()) == {"SCHEDULE_TOPIC_XXXX"}


def test_patterns_and_unknown_topics(group: BrokerGroup) -> None:
    for topic in ("PatternA", "PatternB"):
        fill(group, topic, 3, queues=1)
    with ClusterReader(settings_of(group)) as cluster:
        assert sorted({each.topic for each in cluster.queues(pattern="Pattern.*")}) == [
            "PatternA",
            "PatternB",
        ]
        assert not {each.topic for each in cluster.queues(pattern=".*")} & {
            "TBW102",
            group.name,
            "DefaultCluster",
        }
        with pytest.raises(NoRoute, match="topic Nowhere: the name servers don't know it"):
            cluster.queues(["PatternA", "Nowhere"])
        with pytest.raises(NoRoute, match="no topic's name matches 'Nothing'"):
            cluster.queues(pattern="Nothing")


def test_what_retention_has_deleted(own_group: BrokerGroup) -> None:
    """The first log files are gone on both brokers: the queues' beginnings have moved. It's the first test of its
    group, so that those files are its own."""
    sent = fill(own_group, "Retained", 4000, queues=1, size=1000)
    own_group.wait_caught_up()
    with ClusterReader(settings_of(own_group)) as cluster:
        (wanted,) = [each for each in ranges_of(cluster, "Retained") if each.end]
    own_group.stop()
    for store in (own_group.master_store, own_group.slave_store):
        files = sorted((store / "commitlog").iterdir())
        assert len(files) > 3 and files[0].stat().st_size == SMALL_STORE["mappedFileSizeCommitLog"]
        for file in files[:2]:
            file.unlink()
    own_group.start()
    wait_for_route(own_group, "Retained")
    with ClusterReader(settings_of(own_group)) as cluster:
        (now,) = [each for each in ranges_of(cluster, "Retained") if each.end]
        assert 0 < now.begin < now.end == wanted.end
        with pytest.raises(OffsetsGone, match=f"messages 0 to {now.begin - 1} are gone.*failOnDataLoss"):
            list(cluster.records(wanted))
        rest = [bytes(each) for each in cluster.records(wanted, PullOptions(fail_on_loss=False))]
        assert stored_bodies(rest) == sent[0].bodies[now.begin :]
        assert stored_bodies(map(bytes, cluster.records(now))) == sent[0].bodies[now.begin :]


def test_a_master_killed_in_the_middle_of_a_read(own_group: BrokerGroup) -> None:
    sent = fill(own_group, "Killed", 3000, queues=1, size=500)
    wait_for_slave(own_group, "Killed")
    with ClusterReader(settings_of(own_group, read_from="master")) as cluster:
        (wanted,) = [each for each in ranges_of(cluster, "Killed") if each.end]
        pieces = cluster.records(wanted)
        got = [bytes(next(pieces)) for _ in range(3)]
        own_group.master.kill()
        got += map(bytes, pieces)
    assert stored_bodies(got) == sent[0].bodies


def test_both_killed_in_the_middle_of_a_read(own_group: BrokerGroup) -> None:
    """One clear error; and if the slave is back in time, none."""
    sent = fill(own_group, "BothKilled", 3000, queues=1, size=500)
    wait_for_slave(own_group, "BothKilled")
    with ClusterReader(settings_of(own_group, retries=2)) as cluster:
        (wanted,) = [each for each in ranges_of(cluster, "BothKilled") if each.end]
        pieces = cluster.records(wanted)
        next(pieces)
        own_group.master.kill()
        own_group.slave.kill()
        with pytest.raises(
            BrokerGone, match=r"topic BothKilled queue 0 of broker-a at offset \d+ of 3000: "
        ) as caught:
            list(pieces)
    assert "\n" not in str(caught.value)
    # Many more rounds than a broker's restart gets: here Python and the disk may be as busy as they like.
    with ClusterReader(settings_of(own_group, retries=100)) as cluster:
        own_group.slave.start(wait=None)
        assert stored_bodies(map(bytes, cluster.records(wanted))) == sent[0].bodies


def test_a_slave_that_was_away(own_group: BrokerGroup) -> None:
    """What it has comes from it, the rest from the master."""
    with own_group.master_client() as client:
        send_batches(client, "Away", 0, bodies_of(0, 400))
        own_group.wait_caught_up()
        own_group.slave.suspend()
        # A SYNC_MASTER stores and says that the slave missed it.
        for body in bodies_of(400, 20):
            assert client.send("Away", body, 0).code in (11, 12)
            break
    own_group.slave.resume()
    own_group.slave.kill()
    wait_for_route(own_group, "Away", 1)
    got = read_all(settings_of(own_group), "Away", columns=["body"])
    assert got["body"].to_pylist() == bodies_of(0, 401)


@pytest.fixture(scope="module")
def filtering(group: BrokerGroup) -> BrokerGroup:
    """`Tagged` has 1,000 messages in each of two queues, of 100 tags."""
    pytest.importorskip("pyspark")
    with group.master_client() as client:
        for at in range(0, 2000, 50):
            numbers = range(at, at + 50)
            inner = [
                (b"%08d" % each + bytes(1000), f"TAGS\x01t{each % 100}\x02n\x01{each}") for each in numbers
            ]
            body = b"".join(encode_inner(each, properties.encode()) for each, properties in inner)
            fields = send_fields("Tagged", at // 1000, {}, batch=True)
            client.call(SEND_BATCH_MESSAGE, fields, body).expect(*STORED)
    wait_for_route(group, "Tagged")
    group.wait_caught_up()
    return group


def numbers_of(group: BrokerGroup, **options: str) -> list[int]:
    """Which messages of `Tagged` a read takes, queue by queue in the order in which they come; the same as a batch
    and as a stream."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource

    usual = {
        "namesrvAddr": f"127.0.0.1:{group.namesrv_port}",
        "topics": "Tagged",
        "columns": "queue_id,queue_offset",
    }
    source = RocketMQSource(usual | options)
    batch, stream = source.reader(source.schema()), source.streamReader(source.schema())
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    found = []
    for reader, parts in ((batch, batch.partitions()), (stream, stream.partitions(start, end))):
        rows = [row for part in parts for each in reader.read(part) for row in each.to_pylist()]
        by_queue = sorted(rows, key=itemgetter("queue_id"))
        found.append([1000 * row["queue_id"] + row["queue_offset"] for row in by_queue])
    assert found[0] == found[1]
    return found[0]


def test_brokers_filter(filtering: BrokerGroup) -> None:
    """The same rows as without; by tags and by SQL, in batches and streams."""
    from hatwisted.pipeline.spark.readoptions import BadOption

    expected = [each for each in range(2000) if each % 100 in (7, 8)]
    assert numbers_of(filtering, tags="t7,t8") == expected
    found = numbers_of(filtering, sql92="n >= 1990 OR TAGS = 't5'")
    assert found == [*range(5, 1990, 100), *range(1990, 2000)]
    with pytest.raises(BadOption, match="sql92='n >=' must be a condition on properties"):
        numbers_of(filtering, sql92="n >=")


def pulled(group: BrokerGroup) -> int:
    """Bytes that the master has given to whoever pulled, so far."""
    time.sleep(KEPT + 0.1)  # so long it gives the same text again
    address = f"http://127.0.0.1:{group.settings['metricsPort']}/metrics"
    with urllib.request.urlopen(address, timeout=30) as page:
        figures = Figures(page.read().decode())
    return int(sum(each.value for each in figures.samples if each.name == "rocketmq_throughput_out_total"))


def test_what_is_left_out_is_not_pulled(filtering: BrokerGroup) -> None:
    """docs/pipeline/topics.md has a table of it."""
    before = pulled(filtering)
    for options, rows in (
        ({}, 2000),
        ({"tags": "t7"}, 20),
        ({"tags": ",".join(f"t{each}" for each in range(50))}, 1000),
        ({"tags": "none"}, 0),
        ({"sql92": "n >= 1960"}, 40),
        ({"queueId": "1"}, 1000),
        ({"queueOffsetFrom": "100", "queueOffsetTo": "150"}, 100),
    ):
        assert len(numbers_of(filtering, readFrom="master", **options)) == rows
        now, read = pulled(filtering), 2 * rows  # by a batch and by a stream
        assert read * 1000 <= now - before <= read * 1200 + PLANNING, options
        before = now


def stored_bodies(pieces: Iterable[bytes]) -> list[bytes]:
    """The bodies of whole records."""
    batch = decode_buffer(b"".join(pieces), ["body"], broker="b", file="f")
    bodies: list[bytes] = batch["body"].to_pylist()
    return bodies
