"""Where a log ends that was cut after a crash and written on, over whole records of the same size."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import TestCase
from unittest.mock import patch

import msgspec
import numpy as np

from hatwisted.pipeline import read_arrow
from hatwisted.pipeline.decode.endprobe import EndProbe
from hatwisted.pipeline.decode.fallingtimes import FallingTimes
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.wire import layout
from hatwisted.wire.record import encode_record
from hatwisted.wire.storedrecord import Record
from tests.support.logbuilder import START_TIME
from tests.support.logdrafts import Log, lay_out, plain, rows_of
from tests.unit.pipeline.decode.storecase import StoreCase

FILE_SIZE = 64 << 10
HOUR = 3_600_000


def records(count: int, size: int = 100, file_size: int = FILE_SIZE) -> Log:
    """A log of one queue."""
    return lay_out([plain(b"%0*d" % (size, each), queue_offset=each) for each in range(count)], file_size)


def stored_later(log: Log, numbers: Iterable[int], later: int = HOUR) -> Log:
    """The same log, in which some records were written again, so much later than the first time."""
    found = list(log.records)
    files = {base: bytearray(data) for base, data in log.files.items()}
    for number in numbers:
        found[number] = record = msgspec.structs.replace(
            found[number], store_timestamp=START_TIME + number + later
        )
        (base,) = (each for each in files if each <= record.physical_offset < each + len(files[each]))
        at = record.physical_offset - base
        files[base][at : at + record.total_size] = encode_record(record)
    return replace(log, records=found, files={base: bytes(data) for base, data in files.items()})


def end_of(record: Record) -> int:
    return record.physical_offset + record.total_size


class RewrittenTailTest(StoreCase):
    def write(self, log: Log, queued: Sequence[Record] | None = None) -> LogStore:
        """queued: what the queue names; None: there are no queues."""
        store = self.store(log)
        if queued is not None:
            self.name(store, queued)
        return store

    def name(self, store: LogStore, queued: Sequence[Record]) -> None:
        folder = Path(store.path, "consumequeue", "TopicA", "0")
        folder.mkdir(parents=True, exist_ok=True)
        data = bytearray(layout.QUEUE_ENTRY.size * 1000)
        for each in queued:
            place = (each.physical_offset, each.total_size, 0)
            layout.QUEUE_ENTRY.pack_into(data, each.queue_offset * layout.QUEUE_ENTRY.size, *place)
        (folder / f"{0:020d}").write_bytes(data)

    def rows(self, store: LogStore) -> list[int]:
        return [row["queue_offset"] for row in rows_of(read_arrow(store.path, ["queue_offset"]))]

    def test_the_log_ends_before_older_records(self) -> None:
        """With a queue one new record is enough, without one two are: one time may be damage, or a clock's."""
        for queues, fewest in ((True, 1), (False, 2)):
            for new in range(fewest, 9):
                log = stored_later(records(40), range(10, 10 + new))
                store = self.write(log, log.records[: 10 + new] if queues else None)
                self.assertEqual(store.end(), end_of(log.records[9 + new]), f"{queues} {new}")
                self.assertEqual(self.rows(store), list(range(10 + new)))

    def test_the_broker_writes_on(self) -> None:
        log = records(40)
        store = self.write(stored_later(log, range(10, 13)))
        self.assertEqual(store.end(), end_of(log.records[12]))
        for until in (16, 30, 40):
            newer = stored_later(log, range(10, until))
            Path(store.files[0].path).write_bytes(newer.files[0])
            self.assertEqual(store.end(), end_of(log.records[until - 1]))
            self.assertEqual(self.rows(store), list(range(until)))

    def test_a_tail_that_was_read_and_is_another_now(self) -> None:
        """The same sizes, so that only store times and the queue tell it."""
        log = records(40)
        for until in (13, 40):
            store = self.write(log, log.records)
            self.assertEqual(store.end(), log.end)
            newer = stored_later(log, range(10, until))
            Path(store.files[0].path).write_bytes(newer.files[0])
            self.name(store, newer.records[:until])
            self.assertEqual(store.end(), end_of(log.records[until - 1]))

    def test_an_end_that_no_queue_names_yet_isnt_searched_for_again(self) -> None:
        """Queues follow a moment later, and a stream asks often."""
        log = records(800, 20_000, 16 << 20)
        store = self.write(log, log.records[:790])
        self.assertEqual(store.end(), log.end)
        with patch.object(EndProbe, "_newest_record", side_effect=AssertionError):
            self.assertEqual(store.end(), log.end)
            self.name(store, log.records)
            self.assertEqual(store.end(), log.end)
        self.name(store, log.records[:700])
        self.assertEqual(store.end(), log.end, "it's looked for, and found again")

    def test_a_clock_that_was_set_back_ends_no_log(self) -> None:
        early = stored_later(records(40), range(20), HOUR)
        self.assertEqual(self.write(early, early.records).end(), early.end, "its queue names all")
        caught_up = stored_later(early, range(35, 40))
        self.assertEqual(self.write(caught_up).end(), early.end, "it rises again")
        leapt = stored_later(records(40), [20], HOUR)
        self.assertEqual(self.write(leapt).end(), leapt.end, "one time says nothing")

    def test_one_time_of_the_first_record_says_nothing_either(self) -> None:
        log = stored_later(records(40), [0])
        self.assertEqual(self.write(log).end(), log.end)

    def test_an_end_before_older_records_is_found_again_from_there(self) -> None:
        """What was the last record is where the next look begins."""
        for new in (2, 9):
            log = stored_later(records(40), range(10, 10 + new))
            store = self.write(log)
            self.assertEqual(store.end(), end_of(log.records[9 + new]))
            self.assertEqual(store.end(), end_of(log.records[9 + new]))

    def test_what_no_queue_names_yet_is_read(self) -> None:
        """Queues follow a moment later; a topic that was deleted has none."""
        log = records(40)
        self.assertEqual(self.write(log, log.records[:30]).end(), log.end)
        self.assertEqual(self.write(log, []).end(), log.end)
        odd = self.write(log, [])
        Path(odd.path, "consumequeue", "TopicA", "0", f"{0:020d}").unlink()
        self.assertEqual(odd.end(), log.end)

    def test_prepared_messages_have_no_entry(self) -> None:
        drafts = [plain(bytes(100), queue_offset=0, sys_flag=4) for _ in range(20)]
        log = lay_out([plain(b"x", queue_offset=0), *drafts], FILE_SIZE)
        self.assertEqual(self.write(log, log.records[:1]).end(), log.end)

    def test_a_few_new_records_before_megabytes_of_old_ones(self) -> None:
        """Probes may miss them; the queue doesn't."""
        log = records(800, 20_000, 16 << 20)
        for at in (3, 200, 444, 790):
            newer = stored_later(log, range(at, at + 2))
            store = self.write(newer, newer.records[: at + 2])
            self.assertEqual(store.end(), end_of(log.records[at + 1]), at)

    def test_any_mixture(self) -> None:
        """Queues that follow a little later, sizes that differ, new records that end where an old one does,
        several cuts one after the other: with a queue the end is found wherever it is.
        """
        dice = random.Random(11)
        for turn in range(150):
            same = lay_out(
                [plain(bytes(dice.choice((20, 20, 20, 300))), queue_offset=each) for each in range(60)],
                FILE_SIZE,
            )
            end, log = 60, same
            for later in range(1, dice.randrange(1, 4) + 1):
                begin = dice.randrange(end)
                end = dice.randrange(begin + 1, 61)
                log = stored_later(log, range(begin, end), HOUR * later)
            queued = max(0, end - dice.choice((0, 0, 0, 1, 5)))
            store = self.write(log, log.records[:queued])
            expected = end_of(log.records[end - 1])
            self.assertEqual(store.end(), expected, f"{turn}: {begin} {end} {queued}")
            self.assertEqual(store.end(), expected)

    def test_in_a_log_of_several_files(self) -> None:
        log = records(900)
        last = max(log.files)
        first = next(number for number, each in enumerate(log.records) if each.physical_offset > last)
        self.assertGreater(len(log.records) - first, 20)
        newer = stored_later(log, range(first + 3, first + 9))
        for queued in (None, newer.records[: first + 9]):
            self.assertEqual(self.write(newer, queued).end(), end_of(log.records[first + 8]))


class FallingTimesTest(TestCase):
    def fallen(self, times: Sequence[int], cuts: Sequence[int] = ()) -> int | None:
        """Where they have fallen, seen in pieces."""
        falling, found = FallingTimes(), None
        edges = [0, *cuts, len(times)]
        for begin, end in zip(edges, edges[1:], strict=False):
            if begin == end:
                continue
            first = falling.first_fallen(np.array(times[begin:end], np.int64))
            if not falling.fallen:
                found = None
            elif first is not None:
                found = begin + first
        return found

    def test_surely(self) -> None:
        for times, expected in (
            ([1, 9, 3], False),
            ([1, 9, 9, 3], True),
            ([9, 3], False),
            ([9, 9, 3], True),
            ([1, 9, 9, 3, 9, 2], True),
        ):
            falling = FallingTimes()
            falling.first_fallen(np.array(times, np.int64))
            self.assertEqual(falling.surely, expected, str(times))

    def test_where(self) -> None:
        for times, expected in (
            ([1, 2, 3], None),
            ([5], None),
            ([5, 5, 5], None),
            ([9, 3], 1),
            ([1, 9, 3, 4], 2),
            ([1, 9, 9, 3, 4], 3),
            ([1, 9, 9, 3, 4, 9], None),
            ([1, 9, 9, 3, 9, 2, 2], 5),
            ([1, 9, 5, 4, 9, 8], 5),
            ([0, START_TIME], None),
        ):
            self.assertEqual(self.fallen(times), expected, str(times))

    def test_pieces_make_no_difference(self) -> None:
        dice = random.Random(5)
        for _ in range(2000):
            times = [dice.randrange(6) + each // 3 for each in range(dice.randrange(1, 14))]
            cuts = sorted(dice.randrange(len(times) + 1) for _ in range(dice.randrange(4)))
            self.assertEqual(self.fallen(times, cuts), self.fallen(times), f"{times} {cuts}")
