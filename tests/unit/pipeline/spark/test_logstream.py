"""A stream's places and plans, asked as Spark asks them, and its rows read as its tasks do; no JVM."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.spark.commitlogsource import CommitLogSource
from hatwisted.pipeline.spark.commitlogstream import LogStreamReader, LostRange
from hatwisted.pipeline.spark.logplaces import shares
from hatwisted.pipeline.spark.readoptions import BadOption
from hatwisted.pipeline.spark.sourcecolumns import spark_schema
from tests.support.growing import FIRST_TIME, STEP, GrowingStore

FILE_SIZE = 1 << 20


@pytest.fixture
def log(tmp_path: Path) -> GrowingStore:
    return GrowingStore(tmp_path / "broker-a")


@pytest.fixture
def other(tmp_path: Path) -> GrowingStore:
    return GrowingStore(tmp_path / "broker-b", seed=1)


def stream(*stores: Path, **options: str) -> LogStreamReader:
    given = {
        "paths": json.dumps([str(store) for store in stores]),
        "columns": "physical_offset,broker",
        **options,
    }
    return CommitLogSource(given).streamReader(spark_schema(("physical_offset", "broker")))


def rows(reader: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
    """What the tasks of one trigger read."""
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [(row["broker"], row["physical_offset"]) for batch in batches for row in batch.to_pylist()]


def triggers(
    reader: LogStreamReader, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
) -> list[list[tuple[str, int]]]:
    """The rows of each trigger until there are no more."""
    found = []
    at = reader.initialOffset() if start is None else start
    while (end := reader.latestOffset(at, limit or reader.getDefaultReadLimit())) != at:
        found.append(rows(reader, at, end))
        at = end
    return found


def of(broker: str, offsets: Sequence[int]) -> list[tuple[str, int]]:
    return [(broker, offset) for offset in offsets]


def test_one_trigger_takes_all_there_is(log: GrowingStore) -> None:
    log.append(3000)
    assert triggers(stream(log.root)) == [of("broker-a", log.offsets)]


def test_a_growing_log_is_read_once(log: GrowingStore) -> None:
    reader, seen, at = stream(log.root), [], None
    for _ in range(40):
        log.append(97)
        start = reader.initialOffset() if at is None else at
        at = reader.latestOffset(start, ReadAllAvailable())
        seen += rows(reader, start, at)
    assert seen == of("broker-a", log.offsets)


def test_half_a_record_is_not_there_yet(log: GrowingStore) -> None:
    log.append(10)
    reader = stream(log.root)
    place = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    path = log.root / "commitlog" / f"{0:020d}"
    log.append(1)
    whole = path.read_bytes()
    end = log._end
    for cut in (8, 60, end - log.offsets[-1] - 1):
        path.write_bytes(whole[: log.offsets[-1] + cut].ljust(FILE_SIZE, b"\0"))
        assert reader.latestOffset(place, ReadAllAvailable()) == place, cut
    path.write_bytes(whole)
    assert reader.latestOffset(place, ReadAllAvailable()) == {"broker-a": end}


def test_bytes_limit_a_trigger(log: GrowingStore, other: GrowingStore) -> None:
    log.append(2000)
    other.append(500)
    found = triggers(stream(log.root, other.root, maxBytesPerTrigger="100k"))
    assert len(found) > 9
    ends = [sum(1 for row in trigger if row[0] == "broker-b") for trigger in found]
    assert ends[0] > 100, "both brokers have their part"
    together = [row for trigger in found for row in trigger]
    assert sorted(together) == of("broker-a", log.offsets) + of("broker-b", other.offsets)


def test_a_limit_below_one_record_still_goes_on(log: GrowingStore) -> None:
    log.append(30)
    assert triggers(stream(log.root, maxBytesPerTrigger="1")) == [of("broker-a", [at]) for at in log.offsets]


def test_records_limit_a_trigger(log: GrowingStore, other: GrowingStore) -> None:
    log.append(1000)
    other.append(50)
    found = triggers(stream(log.root, other.root, maxRecordsPerTrigger="300"))
    assert [len(trigger) for trigger in found] == [200, 300, 300, 250]
    together = [row for trigger in found for row in trigger]
    assert sorted(together) == of("broker-a", log.offsets) + of("broker-b", other.offsets)


def test_the_engine_may_ask_for_everything_in_spite_of_limits(log: GrowingStore) -> None:
    log.append(1000)
    found = triggers(stream(log.root, maxBytesPerTrigger="1k"), limit=ReadAllAvailable())
    assert found == [of("broker-a", log.offsets)]


def test_available_now_stops_at_the_end_there_was(log: GrowingStore) -> None:
    log.append(1000)
    reader = stream(log.root, maxBytesPerTrigger="50k")
    reader.prepareForTriggerAvailableNow()
    log.append(1000)
    found = [row for trigger in triggers(reader) for row in trigger]
    assert found == of("broker-a", log.offsets[:1000])
    assert reader.reportLatestOffset() == {"broker-a": log._end}


def test_starting_offsets(log: GrowingStore, other: GrowingStore) -> None:
    log.append(3000)
    other.append(10)

    def first(text: str) -> dict[str, Any]:
        return stream(log.root, other.root, startingOffsets=text).initialOffset()

    assert first("earliest") == {"broker-a": 0, "broker-b": 0}
    assert first("latest") == {"broker-a": log._end, "broker-b": other._end}
    within = log.offsets[500] + 7
    assert first(json.dumps({"broker-a": within})) == {"broker-a": log.offsets[501], "broker-b": 0}
    for number in (0, 1, 777, 2999):
        time = datetime.fromtimestamp(FIRST_TIME / 1000, UTC) + timedelta(milliseconds=STEP * number)
        assert first(time.isoformat())["broker-a"] == log.offsets[number]
    assert first("2100-01-01") == {"broker-a": log._end, "broker-b": other._end}


@pytest.mark.parametrize("text", ['{"broker-a": -1}', '{"broker-a": "x"}', '{"broker-a": {"0": 1}}', "1234"])
def test_wrong_starting_offsets(log: GrowingStore, text: str) -> None:
    with pytest.raises(BadOption, match="startingOffsets"):
        stream(log.root, startingOffsets=text)


def test_starting_offsets_of_a_broker_that_is_not_there(log: GrowingStore) -> None:
    with pytest.raises(PipelineError, match="names broker 'broker-x'; there are: broker-a"):
        stream(log.root, startingOffsets='{"broker-x": 0}').initialOffset()


def test_a_broker_that_appears_is_read_from_its_begin(log: GrowingStore, tmp_path: Path) -> None:
    log.append(100)
    reader = stream(tmp_path / "broker-*")
    start = reader.initialOffset()
    place = reader.latestOffset(start, ReadAllAvailable())
    late = GrowingStore(tmp_path / "broker-late")
    late.append(20)
    assert triggers(reader, place) == [of("broker-late", late.offsets)]


def test_a_store_that_disappears(log: GrowingStore, other: GrowingStore, tmp_path: Path) -> None:
    log.append(10)
    other.append(10)
    place = {"broker-a": log._end, "broker-b": other.offsets[5]}
    shutil.rmtree(other.root)
    with pytest.raises(LostRange, match="'broker-b' up to .* bring it back"):
        stream(tmp_path / "broker-*").latestOffset(place, ReadAllAvailable())
    lossy = stream(tmp_path / "broker-*", failOnDataLoss="false")
    assert lossy.latestOffset(place, ReadAllAvailable()) == place


class TestDeletedFiles:
    """Retention took the first file before it was read."""

    def stream(self, log: GrowingStore, **options: str) -> LogStreamReader:
        log.append(9000)
        assert log.offsets[-1] > 2 * FILE_SIZE
        reader = stream(log.root, **options)
        self.start = reader.initialOffset()
        (log.root / "commitlog" / f"{0:020d}").unlink()
        return reader

    def test_fails(self, log: GrowingStore) -> None:
        reader = self.stream(log)
        with pytest.raises(
            LostRange, match="offsets 0 to 1048576 were deleted before they were read: set failOn"
        ):
            reader.latestOffset(self.start, ReadAllAvailable())

    def test_fails_for_a_batch_that_is_repeated(self, log: GrowingStore) -> None:
        reader = self.stream(log)
        with pytest.raises(LostRange, match="offsets 0 to 1048576 were deleted"):
            reader.partitions(self.start, {"broker-a": log._end})

    def test_goes_on_with_what_there_is(self, log: GrowingStore) -> None:
        reader = self.stream(log, failOnDataLoss="false")
        left = [offset for offset in log.offsets if offset >= FILE_SIZE]
        assert triggers(reader, self.start) == [of("broker-a", left)]

    @pytest.mark.parametrize("lossy", [False, True])
    def test_between_plan_and_task(self, log: GrowingStore, lossy: bool) -> None:
        log.append(5000)
        reader = stream(log.root, failOnDataLoss=str(not lossy))
        (first, *_) = reader.partitions({"broker-a": 0}, {"broker-a": log._end})
        (log.root / "commitlog" / f"{0:020d}").unlink()
        if lossy:
            assert list(reader.read(first)) == []
        else:
            with pytest.raises(PipelineError, match="doesn't exist any more; its broker may have deleted it"):
                list(reader.read(first))


def test_a_log_cut_back_is_told_and_no_part_counts_as_whole(log: GrowingStore) -> None:
    log.append(100)
    place = {"broker-a": log._end}
    path = log.root / "commitlog" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[: log.offsets[50]].ljust(FILE_SIZE, b"\0"))
    with pytest.raises(LostRange, match="which was read already"):
        stream(log.root).latestOffset(place, ReadAllAvailable())
    with pytest.raises(LostRange, match="which it had reached"):
        stream(log.root).partitions({"broker-a": 0}, place)


def test_small_splits_have_the_same_rows(log: GrowingStore) -> None:
    log.append(3000)
    reader = stream(log.root, splitBytes="10k")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert len(reader.partitions(reader.initialOffset(), end)) > 50
    assert rows(reader, reader.initialOffset(), end) == of("broker-a", log.offsets)


def test_an_empty_store_is_one_to_wait_for(log: GrowingStore) -> None:
    reader = stream(log.root)
    start = reader.initialOffset()
    assert triggers(reader, start) == []
    log.append(3)
    assert triggers(reader, start) == [of("broker-a", log.offsets)]


def test_shares() -> None:
    assert shares({"a": 10, "b": 1000, "c": 1000, "d": 0}, 310) == {"a": 10, "b": 150, "c": 150}
    assert shares({"a": 10}, 3) == {"a": 3}
    assert shares({}, 3) == {}


def test_an_idle_trigger_reads_little(log: GrowingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks up to a hundred times a second."""
    log.append(4000)
    reader = stream(log.root)
    place = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    opened = []
    original = LogStore.open
    monkeypatch.setattr(LogStore, "open", lambda *args: opened.append(args) or original(*args))
    assert reader.latestOffset(place, ReadAllAvailable()) == place
    assert opened == []
