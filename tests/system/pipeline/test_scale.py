"""Plans of what is large: 64 GiB of log, and thousands of topics of a thousand brokers. Memory and questions are
counted, and how long it took is printed: `pytest -s`."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("pyspark", reason='Spark isn\'t installed: pip install "hatwisted[pipeline]"')

from hatwisted.pipeline.spark.rocketmqsource import RocketMQSource
from hatwisted.pipeline.spark.rocketmqstream import QueueStreamReader
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scriptedgroup import ScriptedBroker, ScriptedNameServer, response
from tests.support.soak import times
from tests.support.sparselog import save_sparse_log

pytestmark = pytest.mark.timeout(3_600)
SOAK = times(1) > 1
FILES = 64
"""Of 1 GiB."""
EVERY = 1 if SOAK else 64
"""One task of so many is run."""
FLAT = 48 << 10
"""KiB that the memory of a process may grow by while it reads: allocators keep some."""
PLAN_BYTES = 32 << 10
"""Of all tasks of 64 GiB."""
READING = """
import json, pickle, resource, sys, time
from hatwisted.pipeline.spark.commitlogsource import CommitLogSource

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

source = CommitLogSource({"paths": sys.argv[1], "columns": "topic,queue_id,queue_offset"})
reader = source.reader(source.schema())
begun = time.process_time()
parts = reader.partitions()
planned, rows = time.process_time() - begun, 0
for batch in reader.read(parts[0]):
    rows += batch.num_rows
first, read = used(), parts[int(sys.argv[2]) :: int(sys.argv[2])] if int(sys.argv[2]) > 1 else parts[1:]
for part in read:
    for batch in reader.read(part):
        rows += batch.num_rows
print(json.dumps({"parts": len(parts), "bytes": len(pickle.dumps(parts)), "planned": planned, "rows": rows,
                  "first": first, "last": used(), "all": time.process_time() - begun}))
"""
TOPICS, BROKERS = (10_000, 1_000) if SOAK else (300, 30)
PLACE_BYTES = 130
"""Of a queue in a checkpoint: its topic, broker and number, its offset, which record came before, and, for the
first batch, where that began."""


def test_64_gib_are_planned_and_read_with_flat_memory(tmp_path: Path) -> None:
    count = save_sparse_log(tmp_path / "broker-a", FILES)
    command = [sys.executable, "-c", READING, str(tmp_path / "broker-a"), str(EVERY)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(told)
    assert told["parts"] == FILES * 4
    assert told["bytes"] < PLAN_BYTES
    assert told["rows"] == count if EVERY == 1 else 0 < told["rows"] < count
    assert told["last"] - told["first"] < FLAT


class ManyTopics(ScriptedNameServer):
    """Topics of one queue each, by turns at the brokers, which have all one address."""

    def answer(self, request: RemotingCommand) -> RemotingCommand:
        if request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return super().answer(request)
        assert self.brokers is not None
        name = f"broker-{int(request.ext['topic'][1:]) % BROKERS}"
        group = {"brokerAddrs": {"0": self.brokers[0]}, "brokerName": name, "cluster": "C"}
        queues = {"perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "topicSysFlag": 0, "brokerName": name}
        return response(
            request, 0, body=fastjson.dumps_compact({"brokerDatas": [group], "queueDatas": [queues]})
        )


@contextmanager
def many_topics() -> Iterator[tuple[ManyTopics, ScriptedBroker]]:
    with (
        ScriptedBroker(range(3)) as broker,
        ManyTopics({0: broker.address}, [f"T{number:05d}" for number in range(TOPICS)]) as names,
    ):
        names.others = {f"broker-{number}": {0: broker.address} for number in range(BROKERS)}
        yield names, broker


def test_the_offsets_of_many_topics_and_brokers_are_one_plan() -> None:
    with many_topics() as (names, broker):
        given = {"namesrvAddr": names.address, "topicsPattern": "T.*", "columns": "broker,queue_offset"}
        source = RocketMQSource(given)
        reader = cast(QueueStreamReader, source.streamReader(source.schema()))
        clock, begun = time.monotonic, time.monotonic()
        start = reader.initialOffset()
        asked, first = (len(names.requests), len(broker.requests)), clock() - begun
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        parts = reader.partitions(start, end)
        planned = clock() - begun - first
        after = len(broker.requests)
        again = reader.latestOffset(end, reader.getDefaultReadLimit())
        reader.stop()
        idle = len(broker.requests) - after
        rows = sum(batch.num_rows for part in parts for batch in reader.read(part))
    print(f"{TOPICS} topics of {BROKERS} brokers: place {len(json.dumps(end))} bytes,")
    print(f"tasks {len(pickle.dumps(parts))} bytes, begun in {first:.1f} s, a trigger in {planned:.1f} s")
    print(f"questions: {asked} to begin, {after - asked[1]} a trigger, {idle} one without news")
    assert rows == 3 * TOPICS
    assert again == end
    # A route of each topic; of each queue its ends, and where it moved the record before.
    assert asked[0] <= TOPICS + 5
    assert asked[1] <= 2 * TOPICS
    assert after - asked[1] <= 4 * TOPICS
    assert idle <= 2 * TOPICS
    assert len(json.dumps(end)) < PLACE_BYTES * TOPICS
