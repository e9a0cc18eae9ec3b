"""A stream's places and plans, asked as Spark asks them, and its rows read as its tasks do; no JVM."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import LostRange, PipelineError
from hatwisted.pipeline.spark.commitlogsource import CommitLogSource
from hatwisted.pipeline.spark.commitlogstream import LogStreamReader
from hatwisted.pipeline.spark.logplaces import shares
from hatwisted.pipeline.spark.readoptions import BadOption
from hatwisted.pipeline.spark.sourcecolumns import spark_schema
from hatwisted.pipeline.spark.streamlag import LAG
from tests.support.growing import FIRST_TIME, STEP, GrowingStore

FILE_SIZE = 1 << 20


def stream(*stores: Path, **options: str) -> LogStreamReader:
    given = {
        "paths": json.dumps([str(store) for store in stores]),
        "columns": "physical_offset,broker",
        **options,
    }
    reader = CommitLogSource(given).streamReader(spark_schema(("physical_offset", "broker")))
    return cast(LogStreamReader, reader)


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


class StreamCase(SynchronousTestCase):
    """Two brokers' stores in a folder; the second isn't there before somebody asks for it."""

    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.log = GrowingStore(self.folder / "broker-a")

    @cached_property
    def other(self) -> GrowingStore:
        return GrowingStore(self.folder / "broker-b", seed=1)


class TriggerTests(StreamCase):
    def test_one_trigger_takes_all_there_is(self) -> None:
        self.log.append(3000)
        self.assertEqual(triggers(stream(self.log.root)), [of("broker-a", self.log.offsets)])

    def test_a_growing_log_is_read_once(self) -> None:
        reader, seen, at = stream(self.log.root), [], None
        for _ in range(40):
            self.log.append(97)
            start = reader.initialOffset() if at is None else at
            at = reader.latestOffset(start, ReadAllAvailable())
            seen += rows(reader, start, at)
        self.assertEqual(seen, of("broker-a", self.log.offsets))

    def test_half_a_record_is_not_there_yet(self) -> None:
        log = self.log
        log.append(10)
        reader = stream(log.root)
        place = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        path = log.root / "commitlog" / f"{0:020d}"
        log.append(1)
        whole = path.read_bytes()
        end = log.end
        for cut in (8, 60, end - log.offsets[-1] - 1):
            path.write_bytes(whole[: log.offsets[-1] + cut].ljust(FILE_SIZE, b"\0"))
            self.assertEqual(reader.latestOffset(place, ReadAllAvailable()), place, cut)
        path.write_bytes(whole)
        self.assertEqual(reader.latestOffset(place, ReadAllAvailable())["broker-a"], end)

    def test_bytes_limit_a_trigger(self) -> None:
        self.log.append(2000)
        self.other.append(500)
        found = triggers(stream(self.log.root, self.other.root, maxBytesPerTrigger="100k"))
        self.assertGreater(len(found), 9)
        ends = [sum(1 for row in trigger if row[0] == "broker-b") for trigger in found]
        self.assertGreater(ends[0], 100, "both brokers have their part")
        self.assert_both_once(found)

    def test_a_limit_below_one_record_still_goes_on(self) -> None:
        self.log.append(30)
        found = triggers(stream(self.log.root, maxBytesPerTrigger="1"))
        self.assertEqual(found, [of("broker-a", [at]) for at in self.log.offsets])

    def test_records_limit_a_trigger(self) -> None:
        self.log.append(1000)
        self.other.append(50)
        found = triggers(stream(self.log.root, self.other.root, maxRecordsPerTrigger="300"))
        self.assertEqual([len(trigger) for trigger in found], [200, 300, 300, 250])
        self.assert_both_once(found)

    def assert_both_once(self, found: list[list[tuple[str, int]]]) -> None:
        together = [row for trigger in found for row in trigger]
        both = of("broker-a", self.log.offsets) + of("broker-b", self.other.offsets)
        self.assertEqual(sorted(together), both)

    def test_the_engine_may_ask_for_everything_in_spite_of_limits(self) -> None:
        self.log.append(1000)
        found = triggers(stream(self.log.root, maxBytesPerTrigger="1k"), limit=ReadAllAvailable())
        self.assertEqual(found, [of("broker-a", self.log.offsets)])

    def test_available_now_stops_at_the_end_there_was(self) -> None:
        self.log.append(1000)
        reader = stream(self.log.root, maxBytesPerTrigger="50k")
        reader.prepareForTriggerAvailableNow()
        self.log.append(1000)
        found = [row for trigger in triggers(reader) for row in trigger]
        self.assertEqual(found, of("broker-a", self.log.offsets[:1000]))
        told = reader.reportLatestOffset()
        assert told is not None
        self.assertEqual(told["broker-a"], self.log.end)
        left = self.log.end - self.log.offsets[1000]
        self.assertEqual(told[LAG]["estimatedTotalBytesBehindLatest"], left)

    def test_the_progress_says_how_far_behind_it_is(self) -> None:
        self.log.append(1000)
        self.other.append(400)
        now = FIRST_TIME / 1000 + 5_000
        reader = stream(self.log.root, self.other.root, maxBytesPerTrigger="40k")
        reader._now = lambda: now
        self.assertIsNone(reader.reportLatestOffset())
        at = reader.initialOffset()
        while True:
            end = reader.latestOffset(at, reader.getDefaultReadLimit())
            told = reader.reportLatestOffset()
            assert told is not None
            logs = {"broker-a": self.log, "broker-b": self.other}
            left = [log.end - end[broker] for broker, log in logs.items()]
            ages = [
                now - (FIRST_TIME + STEP * log.offsets.index(end[broker])) / 1000
                if end[broker] < log.end
                else 0
                for broker, log in logs.items()
            ]
            self.assertEqual(
                told[LAG],
                {
                    "minOffsetsBehindLatest": min(left),
                    "avgOffsetsBehindLatest": sum(left) / 2,
                    "maxOffsetsBehindLatest": max(left),
                    "estimatedTotalBytesBehindLatest": sum(left),
                    "avgSecondsBehindLatest": sum(ages) / 2,
                    "maxSecondsBehindLatest": max(ages),
                },
            )
            if end == at:
                break
            at = end
        self.assertEqual(set(told[LAG].values()), {0})

    def test_the_first_record_of_the_next_file_says_since_when_something_waits(self) -> None:
        self.log.append(5000)
        (file, *_) = LogStore.open(str(self.log.root)).files
        first = next(number for number, offset in enumerate(self.log.offsets) if offset >= file.end)
        store = LogStore.open(str(self.log.root))
        blank = self.log.offsets[first - 1] + self.log.records[first - 1].total_size
        self.assertLess(blank, file.end)
        self.assertEqual(store.stored_from(blank), FIRST_TIME + STEP * first)
        self.assertIsNone(store.stored_from(self.log.end))

    def test_small_splits_have_the_same_rows(self) -> None:
        self.log.append(3000)
        reader = stream(self.log.root, splitBytes="10k")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        self.assertGreater(len(reader.partitions(start, end)), 50)
        self.assertEqual(rows(reader, start, end), of("broker-a", self.log.offsets))

    def test_an_empty_store_is_one_to_wait_for(self) -> None:
        reader = stream(self.log.root)
        start = reader.initialOffset()
        self.assertEqual(triggers(reader, start), [[]])
        self.log.append(3)
        self.assertEqual(triggers(reader, start), [of("broker-a", self.log.offsets)])

    def test_shares(self) -> None:
        wanted = {"a": 10, "b": 150, "c": 150}
        self.assertEqual(shares({"a": 10, "b": 1000, "c": 1000, "d": 0}, 310), wanted)
        self.assertEqual(shares({"a": 10}, 3), {"a": 3})
        self.assertEqual(shares({}, 3), {})

    def test_an_idle_trigger_reads_little(self) -> None:
        """Spark asks up to a hundred times a second."""
        self.log.append(4000)
        reader = stream(self.log.root)
        place = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        opened: list[object] = []
        original = LogStore.open
        self.patch(LogStore, "open", lambda *args: opened.append(args) or original(*args))
        self.assertEqual(reader.latestOffset(place, ReadAllAvailable()), place)
        self.assertEqual(opened, [])


class StartingOffsetTests(StreamCase):
    def first(self, text: str) -> dict[str, Any]:
        return stream(self.log.root, self.other.root, startingOffsets=text).initialOffset()

    def test_earliest_latest_offsets_and_times(self) -> None:
        log, other = self.log, self.other
        log.append(3000)
        other.append(10)
        self.assertEqual(self.first("earliest"), {"broker-a": 0, "broker-b": 0})
        self.assertEqual(self.first("latest"), {"broker-a": log.end, "broker-b": other.end})
        within = self.first(json.dumps({"broker-a": log.offsets[500] + 7}))
        self.assertEqual(within, {"broker-a": log.offsets[501], "broker-b": 0})
        for number in (0, 1, 777, 2999):
            time = datetime.fromtimestamp(FIRST_TIME / 1000, UTC) + timedelta(milliseconds=STEP * number)
            self.assertEqual(self.first(time.isoformat())["broker-a"], log.offsets[number])
        self.assertEqual(self.first("2100-01-01"), {"broker-a": log.end, "broker-b": other.end})

    def test_wrong_ones(self) -> None:
        for text in ('{"broker-a": -1}', '{"broker-a": "x"}', '{"broker-a": {"0": 1}}', "1234"):
            with self.subTest(text), self.assertRaisesRegex(BadOption, "startingOffsets"):
                stream(self.log.root, startingOffsets=text).initialOffset()

    def test_those_of_a_broker_that_is_not_there(self) -> None:
        with self.assertRaisesRegex(PipelineError, "names broker 'broker-x'; there are: broker-a"):
            stream(self.log.root, startingOffsets='{"broker-x": 0}').initialOffset()


class AppearanceTests(StreamCase):
    def test_a_broker_that_appears_is_read_from_its_first_record(self) -> None:
        self.log.append(100)
        reader = stream(self.folder / "broker-*")
        place = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        late = GrowingStore(self.folder / "broker-late")
        late.append(20)
        self.assertEqual(triggers(reader, place), [of("broker-late", late.offsets)])

    def test_a_store_that_disappears(self) -> None:
        self.log.append(10)
        self.other.append(10)
        place = {"broker-a": self.log.end, "broker-b": self.other.offsets[5]}
        shutil.rmtree(self.other.root)
        with self.assertRaisesRegex(LostRange, "'broker-b' up to .* bring it back"):
            stream(self.folder / "broker-*").latestOffset(place, ReadAllAvailable())
        lossy = stream(self.folder / "broker-*", failOnDataLoss="false")
        self.assertEqual(lossy.latestOffset(place, ReadAllAvailable()), place)

    def test_a_log_cut_back_is_reported_and_no_part_counts_as_whole(self) -> None:
        log = self.log
        log.append(100)
        place = {"broker-a": log.end}
        path = log.root / "commitlog" / f"{0:020d}"
        path.write_bytes(path.read_bytes()[: log.offsets[50]].ljust(FILE_SIZE, b"\0"))
        with self.assertRaisesRegex(LostRange, "which was read already"):
            stream(log.root).latestOffset(place, ReadAllAvailable())
        with self.assertRaisesRegex(LostRange, "which it had reached"):
            stream(log.root).partitions({"broker-a": 0}, place)

    def test_a_log_that_was_written_again_is_reported(self) -> None:
        """After a crash the broker had lost the last records, and has others of the same size there now."""
        log = self.log
        log.append(100)
        reader = stream(log.root)
        place = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        log.store_later(range(80, 100))
        self.assertEqual(reader.latestOffset(place, ReadAllAvailable()), place)
        log.append(30)
        log.store_later(range(100, 130))
        with self.assertRaisesRegex(LostRange, f"record at {log.offsets[99]}, .* is another one now"):
            reader.latestOffset(place, ReadAllAvailable())
        self.assertEqual(
            triggers(stream(log.root, failOnDataLoss="false"), place), [of("broker-a", log.offsets[100:])]
        )

    def test_places_know_their_last_record_wherever_they_are(self) -> None:
        """At the log's end, within limits, at the end of a file; a deleted one can't be compared."""
        log = self.log
        log.append(6000)
        reader = stream(log.root, maxRecordsPerTrigger="700")
        at = reader.initialOffset()
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            at = end
            number = sum(offset < at["broker-a"] for offset in log.offsets) - 1
            self.assertEqual(at[":last"], {"broker-a": [log.offsets[number], FIRST_TIME + STEP * number]})
        other = stream(log.root, startingOffsets=json.dumps(at))
        self.assertEqual(other.initialOffset(), {"broker-a": log.end})
        early = {"broker-a": FILE_SIZE, ":last": {"broker-a": [7, 7]}}
        (log.root / "commitlog" / f"{0:020d}").unlink()
        self.assertEqual(reader.latestOffset(early, ReadAllAvailable())["broker-a"], log.end)


class DeletedFileTests(StreamCase):
    """Retention took the first file before it was read."""

    def stream(self, **options: str) -> LogStreamReader:
        self.log.append(9000)
        self.assertGreater(self.log.offsets[-1], 2 * FILE_SIZE)
        reader = stream(self.log.root, **options)
        self.start = reader.initialOffset()
        self.delete_first()
        return reader

    def delete_first(self) -> None:
        (self.log.root / "commitlog" / f"{0:020d}").unlink()

    def test_fails(self) -> None:
        reader = self.stream()
        told = "offsets 0 to 1048576 were deleted before they were read: set failOn"
        with self.assertRaisesRegex(LostRange, told):
            reader.latestOffset(self.start, ReadAllAvailable())

    def test_fails_for_a_batch_that_is_repeated(self) -> None:
        reader = self.stream()
        with self.assertRaisesRegex(LostRange, "offsets 0 to 1048576 were deleted"):
            reader.partitions(self.start, {"broker-a": self.log.end})

    def test_fails_for_a_repeated_batch_of_which_nothing_is_left(self) -> None:
        reader = self.stream()
        for end in (self.log.offsets[5], FILE_SIZE):
            with self.assertRaisesRegex(LostRange, "offsets 0 to 1048576 were deleted"):
                reader.partitions(self.start, {"broker-a": end})

    def test_the_first_batch_of_a_broker_that_appeared_begins_where_it_began(self) -> None:
        self.other.append(10)
        reader = stream(self.other.root)
        start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.log.append(5000)
        end = stream(self.log.root, self.other.root).latestOffset(start, ReadAllAvailable())
        self.delete_first()
        with self.assertRaisesRegex(LostRange, "offsets 0 to 1048576 were deleted"):
            stream(self.log.root, self.other.root).partitions(start, end)

    def test_the_first_batch_begins_where_it_began(self) -> None:
        """Spark keeps where batches end alone, and asks for the first one's begin again when it's repeated."""
        for begin in ("earliest", "latest"):
            with self.subTest(begin):
                self.log.append(3000)
                reader = stream(self.log.root, startingOffsets=begin)
                start = reader.initialOffset()
                self.log.append(30)
                end = reader.latestOffset(start, ReadAllAvailable())
                planned = rows(reader, start, end)
                self.log.append(7)
                again = stream(self.log.root, startingOffsets=begin)
                self.assertEqual(rows(again, again.initialOffset(), end), planned)
        self.delete_first()
        again = stream(self.log.root)
        start, end = {"broker-a": 0}, {"broker-a": self.log.offsets[3000], ":first": {"broker-a": 0}}
        with self.assertRaisesRegex(LostRange, "offsets 0 to 1048576 were deleted"):
            again.partitions(again.initialOffset(), end)

    def test_a_batch_read_from_an_offset_can_be_asked_to_be_whole(self) -> None:
        self.stream()
        given = {"path": str(self.log.root), "columns": "physical_offset", "physicalOffsetFrom": "0"}
        schema = spark_schema(("physical_offset",))
        self.assertTrue(CommitLogSource(given).reader(schema).partitions())
        with self.assertRaisesRegex(LostRange, "offsets 0 to 1048576 were deleted before they were read"):
            CommitLogSource(given | {"failOnDataLoss": "true"}).reader(schema).partitions()

    def test_goes_on_with_what_there_is(self) -> None:
        reader = self.stream(failOnDataLoss="false")
        left = [offset for offset in self.log.offsets if offset >= FILE_SIZE]
        self.assertEqual(triggers(reader, self.start), [of("broker-a", left)])

    def between_plan_and_task(self, *, lossy: bool) -> list[Any]:
        self.log.append(5000)
        reader = stream(self.log.root, failOnDataLoss=str(not lossy))
        (first, *_) = reader.partitions({"broker-a": 0}, {"broker-a": self.log.end})
        self.delete_first()
        return list(reader.read(first))

    def test_between_plan_and_task(self) -> None:
        with self.assertRaisesRegex(PipelineError, "doesn't exist any more; its broker may have deleted it"):
            self.between_plan_and_task(lossy=False)

    def test_between_plan_and_task_where_losses_are_allowed(self) -> None:
        self.assertEqual(self.between_plan_and_task(lossy=True), [])
