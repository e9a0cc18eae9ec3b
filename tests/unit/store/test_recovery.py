"""Recovery: where the log ends, what is cut, what is refused, and that queues and index come out whole.

Tests named `rocketmq_fault_...` show a fault of RocketMQ's own recovery done right.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec import logwalk as logwalk_module
from hatwisted.logcodec import recordsearch as recordsearch_module
from hatwisted.logcodec.logwalk import LogWalk
from hatwisted.logcodec.recordsearch import records_after, written_end
from hatwisted.store.disk.filesystem import PosixFileSystem
from hatwisted.store.errors import DamagedEnd, DamagedLog, StoreFull
from hatwisted.store.lifecycle import queuecompleteness
from hatwisted.store.lifecycle import recovery as recovery_module
from hatwisted.store.lifecycle.queuecompleteness import first_incomplete_file
from hatwisted.store.lifecycle.queueevidence import QueueEvidence
from hatwisted.store.lifecycle.recovery import RecoveryReport
from hatwisted.store.log.filequeue import FileQueue
from hatwisted.wire import layout
from hatwisted.wire.record import encode_blank, encode_record, make_record
from tests.support.faultyfs import FaultyFileSystem
from tests.support.golden import GOLDEN
from tests.support.logbuilder import FILE_SIZE, START_TIME, LogBuilder
from tests.support.samplestore import SLOTS, SampleStore, entries_of, items_of, queues_of


class RecoveryTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = self.mktemp()
        self.events: list[dict[str, object]] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)

    # -- verbs -----------------------------------------------------------------------------------------------

    def opened(self, **options: object) -> SampleStore:
        store = SampleStore(self.root, **options)  # type: ignore[arg-type]
        self.addCleanup(store.close)
        return store

    def written(self, writer: LogBuilder, *, dispatched: bool = True) -> None:
        """A store whose log holds what the writer has, with queues and index up to date."""
        writer.save(Path(self.root))
        if dispatched:
            store = self.opened()
            store.log.set_end(writer.end)
            store.dispatcher.begin_at(writer.base)
            store.dispatch_all()
            store.close()

    def log_file(self, start: int = 0) -> Path:
        return Path(self.root, "commitlog", layout.file_name(start))

    def change(self, offset: int, new: bytes) -> None:
        """Overwrite bytes of the log on disk."""
        path = self.log_file(offset - offset % FILE_SIZE)
        raw = bytearray(path.read_bytes())
        raw[offset % FILE_SIZE : offset % FILE_SIZE + len(new)] = new
        path.write_bytes(raw)

    def recovered(self, *, unclean: bool = True) -> tuple[SampleStore, RecoveryReport]:
        store = self.opened()
        return store, store.recover(unclean=unclean)

    def assertWhole(self, store: SampleStore, writer: LogBuilder, end: int) -> None:
        """The log ends there, followed by zeros; queues and index hold its records, and no others."""
        self.assertEqual(store.log.max_offset, end)
        self.assertEqual(written_end(store.files, end), end)
        entries = [
            entry for entry in entries_of(bytes(writer.data), writer.base) if entry.physical_offset < end
        ]
        self.assertEqual(store.contents(), queues_of(entries))
        self.assertEqual(store.items(), items_of(entries))
        self.assertEqual(store.dispatcher.reput_offset, end)

    def warnings(self, text: str) -> int:
        return sum(text in str(event.get("log_format")) for event in self.events)


class EndTests(RecoveryTestCase):
    def test_intact_store(self) -> None:
        writer = LogBuilder().fill_files(5)
        self.written(writer)
        for unclean in (False, True):
            store, report = self.recovered(unclean=unclean)
            self.assertWhole(store, writer, writer.end)
            self.assertEqual((report.end, report.torn_bytes, report.torn_reason), (writer.end, 0, ""))
            store.close()

    def test_clean_exit_follows_the_last_three_files_only(self) -> None:
        writer = LogBuilder().fill_files(5)
        self.written(writer)
        _, report = self.recovered(unclean=False)
        self.assertEqual(report.start, 2 * FILE_SIZE)
        self.assertEqual(report.store_timestamp, START_TIME + 10 * (len(writer.offsets) - 1))

    def test_unclean_exit_begins_at_the_file_the_checkpoint_vouches_for(self) -> None:
        writer = LogBuilder().fill_files(6)
        self.written(writer)
        third = next(number for number, at in enumerate(writer.offsets) if at >= 2 * FILE_SIZE)
        store = self.opened()
        stored = START_TIME + 10 * third
        for margin, expected in ((3000, 2), (2999, 1)):
            store.checkpoint.physic_timestamp = store.checkpoint.logics_timestamp = stored + margin
            report = store.recover(unclean=True)
            self.assertEqual(report.start, expected * FILE_SIZE)
        store.checkpoint.logics_timestamp = 0
        self.assertEqual(store.recover(unclean=True).start, 0)

    def test_messageIndexSafe_begins_where_the_index_was_on_disk_too(self) -> None:
        writer = LogBuilder().fill_files(4)
        self.written(writer)
        third = next(number for number, at in enumerate(writer.offsets) if at >= 2 * FILE_SIZE)
        store = self.opened()
        checkpoint, stored = store.checkpoint, START_TIME + 10 * third
        checkpoint.physic_timestamp = checkpoint.logics_timestamp = stored + 3000
        for indexed, expected in ((stored, 2), (stored - 1, 1), (0, 0)):
            checkpoint.index_timestamp = indexed
            self.assertEqual(
                store.recover(unclean=True, index_safe=True).start, expected * FILE_SIZE, indexed - stored
            )
            self.assertEqual(store.recover(unclean=True).start, 2 * FILE_SIZE)

    def test_torn_tail_is_cut_at_every_byte_of_the_last_record(self) -> None:
        writer = LogBuilder().fill(4)
        whole = writer.end
        writer.add("TopicA", 1, b"last", b"UNIQ_KEY\x01u\x02TAGS\x01t")
        for cut in range(whole, writer.end):
            shutil.rmtree(self.root, ignore_errors=True)
            self.written(writer)
            self.change(cut, bytes(writer.end - cut))
            store, report = self.recovered()
            self.assertWhole(store, writer, whole)
            self.assertEqual(report.torn_bytes, len(bytes(writer.data[whole:cut]).rstrip(b"\0")))
            store.close()

    def test_rocketmq_fault_record_torn_in_its_properties_is_accepted(self) -> None:
        writer = LogBuilder().fill(10)
        last = writer.offsets[-1]
        for unclean in (False, True):
            shutil.rmtree(self.root, ignore_errors=True)
            # A slave that got the record's last bytes no more: never dispatched.
            self.written(writer, dispatched=False)
            self.change(writer.end - 30, bytes(30))
            store, report = self.recovered(unclean=unclean)
            self.assertWhole(store, writer, last)
            self.assertIn("zero bytes", report.torn_reason)
            store.close()

    def test_an_end_that_has_gone_bad_since_a_clean_exit_is_no_torn_tail(self) -> None:
        """The last record was on the disk, its answer has been given: cutting it would be a loss."""
        writer = LogBuilder().fill_files(2)
        self.written(writer)
        store, _ = self.recovered(unclean=False)
        store.checkpoint.flushed = writer.end
        store.checkpoint.flush()
        store.close()
        last = writer.offsets[-1]
        self.change(last + layout.BODY_AT, b"\xff")
        before = self.log_file(last - last % FILE_SIZE).read_bytes()
        with self.assertRaisesRegex(
            DamagedEnd, f"offset {last} .*; up to {writer.end} it was on the disk when the store was closed"
        ):
            self.recovered(unclean=False)
        self.assertEqual(self.log_file(last - last % FILE_SIZE).read_bytes(), before)
        self.change(last + layout.BODY_AT, b"\xff")
        self.change(last + layout.MAGIC_AT, b"\x00")
        with self.assertRaises(DamagedEnd):
            self.recovered(unclean=False)
        # After a crash it may as well never have been written as a whole.
        _, report = self.recovered(unclean=True)
        self.assertEqual((report.end, report.torn_bytes), (last, writer.end - last))

    def test_a_record_that_really_ends_in_a_zero_byte_survives_a_clean_exit(self) -> None:
        writer = LogBuilder().fill(5)
        writer.add(raw=b"TAGS\x01t\x02user\x01a\0")
        self.written(writer)
        store, _ = self.recovered(unclean=False)
        self.assertWhole(store, writer, writer.end)

    def test_a_record_that_ends_in_a_zero_byte_is_no_tail_when_others_follow(self) -> None:
        writer = LogBuilder().fill(5)
        writer.add(raw=b"TAGS\x01t\x02user\x01a\0")
        writer.fill(1)
        self.written(writer)
        store, _ = self.recovered()
        self.assertWhole(store, writer, writer.end)

    def test_torn_tail_is_reported_once(self) -> None:
        writer = LogBuilder().fill(10)
        self.written(writer, dispatched=False)
        self.change(writer.end, b"\xda\xa3garbage")
        store, report = self.recovered()
        self.assertEqual((report.end, report.torn_bytes), (writer.end, 9))
        self.assertEqual(self.warnings("tail is torn"), 1)
        store.close()
        store, report = self.recovered()
        self.assertEqual(report.torn_bytes, 0)
        self.assertEqual(self.warnings("tail is torn"), 1)

    def test_body_checksum_is_looked_at_unless_switched_off(self) -> None:
        writer = LogBuilder().fill(10)
        self.written(writer)
        self.change(writer.offsets[-1] + layout.BODY_AT, b"\xff")
        store = self.opened()
        recovery_module.recover(
            store.parts,
            recovery_module.RecoveryOptions(unclean=True, check_crc=False),
            keep_aside=lambda begin, end: "nowhere",
        )
        self.assertWhole(store, writer, writer.end)
        store.close()
        store, _ = self.recovered()
        self.assertWhole(store, writer, writer.offsets[-1])

    def test_rocketmq_fault_blank_without_a_next_file_is_recovered_below_the_slave(self) -> None:
        writer = LogBuilder().fill_files(2)
        del writer.data[FILE_SIZE:]
        self.written(writer, dispatched=False)
        for unclean in (True, False):
            store, report = self.recovered(unclean=unclean)
            self.assertEqual((report.end, store.log.max_offset), (FILE_SIZE, FILE_SIZE))
            self.assertEqual(written_end(store.files, 0), FILE_SIZE - bytes(writer.data)[::-1].index(b"\x94"))
            store.close()

    def test_blank_with_an_empty_next_file(self) -> None:
        writer = LogBuilder().fill_files(2)
        del writer.data[FILE_SIZE:]
        self.written(writer, dispatched=False)
        self.log_file(FILE_SIZE).write_bytes(bytes(FILE_SIZE))
        store, report = self.recovered()
        self.assertEqual((report.end, store.files.starts), (FILE_SIZE, [0, FILE_SIZE]))

    def test_file_made_ahead_is_removed(self) -> None:
        writer = LogBuilder().fill_files(2)
        self.written(writer)
        self.log_file(2 * FILE_SIZE).write_bytes(bytes(FILE_SIZE))
        store, report = self.recovered(unclean=False)
        self.assertWhole(store, writer, writer.end)
        self.assertEqual(report.files_removed, 1)

    def test_a_head_that_names_a_record_bigger_than_its_file_is_an_end(self) -> None:
        self.written(LogBuilder().fill_files(1))
        head = (FILE_SIZE * 2).to_bytes(4, "big") + layout.MAGIC_V1.to_bytes(4, "big")
        files = FileQueue(PosixFileSystem(), os.path.join(self.root, "commitlog"), FILE_SIZE)
        files.load()
        last = files.starts[-1]
        for offset in (last, 0):
            self.change(offset, head)
            walk = LogWalk(files, 0)
            end = walk.to_end()
            self.assertEqual(walk.damages[0].offset if end is None else end.offset, offset)

    def test_half_a_blank(self) -> None:
        writer = LogBuilder().fill(10)
        self.written(writer)
        self.change(writer.end, encode_blank(FILE_SIZE - writer.end)[:6])
        store, report = self.recovered()
        self.assertWhole(store, writer, writer.end)
        self.assertEqual(report.torn_bytes, 6)

    def test_rocketmq_fault_stale_bytes_past_the_end_are_left(self) -> None:
        writer = LogBuilder().fill(10)
        self.written(writer)
        self.change(writer.offsets[-1] + layout.BODY_AT, b"\xff")
        store, _ = self.recovered()
        self.assertEqual(self.log_file().read_bytes()[writer.offsets[-1] :].strip(b"\0"), b"")
        store.close()

    def test_no_log_at_all_means_no_queues_and_no_index(self) -> None:
        self.written(LogBuilder().fill(20))
        shutil.rmtree(os.path.join(self.root, "commitlog"))
        store, report = self.recovered(unclean=False)
        self.assertEqual((report.end, store.contents(), store.items()), (0, {}, []))
        self.assertEqual(os.listdir(os.path.join(self.root, "index")), [])

    def test_empty_folder(self) -> None:
        store, report = self.recovered(unclean=False)
        self.assertEqual((report.end, store.log.max_offset, report.dispatched_bytes), (0, 0, 0))

    def test_log_of_zeros_only(self) -> None:
        os.makedirs(os.path.join(self.root, "commitlog"))
        self.log_file(FILE_SIZE).write_bytes(bytes(FILE_SIZE))
        _, report = self.recovered()
        self.assertEqual((report.end, report.records), (FILE_SIZE, 0))

    def test_golden_store_opens_clean_and_unclean(self) -> None:
        for unclean in (False, True):
            shutil.rmtree(self.root, ignore_errors=True)
            shutil.copytree(GOLDEN / "master", self.root)
            queues = {
                path: path.read_bytes()
                for path in Path(self.root, "consumequeue").rglob("*")
                if path.is_file()
            }
            store, report = self.recovered(unclean=unclean)
            self.assertEqual((report.end, report.torn_bytes), (0x1B461, 0))
            self.assertEqual(report.dispatched_from <= FILE_SIZE, unclean)
            self.assertEqual([path for path in queues if path.read_bytes() != queues[path]], [])
            (golden,), (index,) = (GOLDEN / "master" / "index").iterdir(), Path(self.root, "index").iterdir()
            self.assertEqual(index.read_bytes(), golden.read_bytes())
            store.close()


class ForgedRecordTests(RecoveryTestCase):
    """A body may hold whole records for the very offsets they will lie at: answers tell a producer where its
    messages went."""

    def carrier(self, writer: LogBuilder, records: int = 3, rest: int = 2000) -> int:
        """Append a message whose body holds such records; where it begins."""
        at = writer.end
        body = b""
        for number in range(records):
            body += encode_record(
                make_record(
                    "Topic0",
                    b"forged",
                    queue_offset=1000 + number,
                    physical_offset=at + layout.BODY_AT + len(body),
                    store_timestamp=1 << 42,
                )
            )
        return writer.add("Topic0", 0, body + bytes(rest), raw=b"TAGS\x01t").physical_offset

    def test_records_in_a_torn_body_are_no_damage(self) -> None:
        for kept in (300, 400, 1000, -4):
            writer = LogBuilder().fill(20)
            at = self.carrier(writer)
            self.written(writer, dispatched=False)
            torn = at + kept if kept > 0 else writer.end + kept
            self.change(torn, bytes(writer.end - torn))
            store, report = self.recovered()
            self.assertWhole(store, writer, at)
            self.assertGreater(report.torn_bytes, 200)
            store.close()
            shutil.rmtree(self.root)

    def test_records_in_a_body_with_a_wrong_checksum_are_no_place_to_go_on(self) -> None:
        writer = LogBuilder().fill(20)
        at = self.carrier(writer)
        behind = writer.add().physical_offset
        self.written(writer)
        self.change(at + 1500, b"?")
        store = self.opened()
        error = self.assertRaises(DamagedLog, store.recover, unclean=True)
        store.close()
        self.assertEqual((error.offset, error.resumes_at), (at, behind))

    def test_a_wrong_size_hides_no_record(self) -> None:
        for bit in range(32):
            writer = LogBuilder().fill(60)
            victim, behind = writer.offsets[30], writer.offsets[31]
            self.written(writer, dispatched=False)
            size = (behind - victim) ^ 1 << bit
            self.change(victim, size.to_bytes(4, "big"))
            store = self.opened()
            error = self.assertRaises(DamagedLog, store.recover, unclean=True)
            store.close()
            self.assertEqual((error.offset, error.resumes_at), (victim, behind), f"bit {bit}")
            shutil.rmtree(self.root)

    def test_where_the_carriers_head_is_lost_the_queues_decide(self) -> None:
        writer = LogBuilder().fill(20)
        at = self.carrier(writer)
        self.written(writer)
        self.change(at, bytes(layout.BODY_AT))
        queues = Path(self.root, "consumequeue")
        shutil.copytree(queues, queues.with_suffix(".kept"))
        shutil.rmtree(queues)
        store = self.opened()
        # Nobody can tell then: the start is refused rather than something acknowledged cut.
        self.assertRaises(DamagedLog, store.recover, unclean=True)
        store.close()
        shutil.rmtree(queues, ignore_errors=True)
        queues.with_suffix(".kept").rename(queues)
        store, _ = self.recovered()
        self.assertEqual(store.log.max_offset, at)
        store.close()


class DamageTests(RecoveryTestCase):
    def refused(self, *, unclean: bool = True) -> DamagedLog:
        """Start is refused, and no byte of the log has changed."""
        before = {path.name: path.read_bytes() for path in Path(self.root, "commitlog").iterdir()}
        store = self.opened()
        error = self.assertRaises(DamagedLog, store.recover, unclean=unclean)
        store.close()
        after = {path.name: path.read_bytes() for path in Path(self.root, "commitlog").iterdir()}
        self.assertTrue(before == after)
        return error

    def test_rocketmq_fault_damage_in_the_middle_is_cut_with_the_good_records_after_it(self) -> None:
        writer = LogBuilder().fill(30)
        damages: list[tuple[int, bytes]] = [
            (layout.MAGIC_AT, b"\0\0\0\0"),
            (layout.BODY_AT, b"\xff\xff"),
            (layout.TOTAL_SIZE_AT, b"\0\0\0\x01"),
            (0, bytes(100)),
        ]
        for at, new in damages:
            for unclean in (False, True):
                shutil.rmtree(self.root, ignore_errors=True)
                self.written(writer)
                self.change(writer.offsets[12] + at, new)
                error = self.refused(unclean=unclean)
                self.assertEqual((error.offset, error.resumes_at), (writer.offsets[12], writer.offsets[13]))
                self.assertEqual(error.end, writer.end)
                self.assertIn(str(writer.end - writer.offsets[12]), str(error))
                file = writer.offsets[12] // FILE_SIZE * FILE_SIZE
                self.assertIn(f" in {Path(self.root, 'commitlog')}/{file:020d};", str(error))

    def test_good_records_in_a_later_file_count_too(self) -> None:
        writer = LogBuilder().fill_files(3)
        last = max(at for at in writer.offsets if at < FILE_SIZE)
        self.written(writer)
        self.change(last + layout.BODY_AT, b"\xff\xff")
        error = self.refused()
        self.assertEqual((error.offset, error.resumes_at), (last, FILE_SIZE))

    def test_a_lost_file_start(self) -> None:
        writer = LogBuilder().fill_files(3)
        self.written(writer)
        self.change(FILE_SIZE, bytes(4096))
        self.assertEqual(self.refused().offset, FILE_SIZE)

    def test_damage_before_the_scan_that_a_rebuild_meets(self) -> None:
        writer = LogBuilder().fill_files(5)
        for at, new in ((layout.MAGIC_AT, b"\0\0\0\0"), (layout.TOTAL_SIZE_AT, b"\0\0\0\x01")):
            shutil.rmtree(self.root, ignore_errors=True)
            self.written(writer)
            shutil.rmtree(Path(self.root, "consumequeue"))
            self.change(writer.offsets[12] + at, new)
            error = self.refused(unclean=False)
            self.assertEqual((error.offset, error.resumes_at), (writer.offsets[12], writer.offsets[13]))
            self.assertEqual(error.end, writer.end)
            self.assertIn("hatwisted log repair", str(error))
            self.assertIn(f" in {self.log_file()};", str(error))

    def test_damage_before_the_scan_up_to_where_that_begins(self) -> None:
        writer = LogBuilder().fill_files(5)
        self.written(writer)
        shutil.rmtree(Path(self.root, "consumequeue"))
        self.change(writer.offsets[3], bytes(FILE_SIZE - writer.offsets[3]))
        self.change(FILE_SIZE, bytes(FILE_SIZE))
        error = self.refused(unclean=False)
        self.assertEqual((error.offset, error.resumes_at), (writer.offsets[3], 2 * FILE_SIZE))

    def leftovers(self, first: int) -> tuple[LogBuilder, LogBuilder]:
        """A store as RocketMQ leaves it: an old log was cut at record `first` and written on, its bytes are still
        there after the new end. Returns the old log and the new one."""
        old = LogBuilder().fill(40, body=200)
        new = LogBuilder().fill(first, body=200)
        new.later = 60_000
        for _ in range(5):
            new.add("Topic0", 0, b"new")
        stale = bytes(old.data[new.end :])
        self.written(new)
        self.change(new.end, stale)
        return old, new

    def test_rocketmq_fault_stale_records_past_the_end_of_a_rocketmq_store_are_no_damage(self) -> None:
        _, new = self.leftovers(20)
        store, report = self.recovered()
        self.assertWhole(store, new, new.end)
        self.assertGreater(report.torn_bytes, 1000)

    def test_stale_records_are_recognised_by_the_queue_position_that_another_record_holds(self) -> None:
        old, new = self.leftovers(20)
        store = self.opened()
        store.queues.recover()
        behind = list(records_after(store.files, new.end, old.end))
        self.assertGreater(len(behind), 5)
        evidence = QueueEvidence(store.queues)
        held = [record for record in behind if (record.topic, record.queue_id) == ("Topic0", 0)]
        self.assertTrue(evidence.was_cut_before(held[0], new.end, 0))

    def test_a_record_that_its_queue_knows_is_never_taken_for_stale(self) -> None:
        writer = LogBuilder().fill(30)
        self.written(writer)
        self.change(writer.offsets[12], bytes(60))
        self.assertEqual(self.refused().offset, writer.offsets[12])

    def test_it_is_looked_behind_as_many_zeros_as_a_disk_may_lose_and_as_far_as_queues_know(self) -> None:
        writer = LogBuilder().fill_files(2)
        self.patch(logwalk_module, "CHUNK", 512)
        self.patch(recordsearch_module, "CHUNK", 512)
        self.patch(recordsearch_module, "ZEROS_BEHIND", 1024)
        hole, last = writer.offsets[12], writer.offsets[-1]
        self.written(writer)
        for start in (0, FILE_SIZE):
            self.change(max(start, hole), bytes(min(last, start + FILE_SIZE) - max(start, hole)))
        self.assertEqual(self.refused().resumes_at, last)
        shutil.rmtree(os.path.join(self.root, "consumequeue"))
        shutil.rmtree(os.path.join(self.root, "index"))
        store, _ = self.recovered()
        self.assertEqual(store.log.max_offset, hole)

    def test_an_embedded_copy_of_a_record_is_no_record(self) -> None:
        inner = LogBuilder().fill(3)
        writer = LogBuilder().fill(5)
        last = writer.add(body=bytes(inner.data)).physical_offset
        self.written(writer)
        self.change(writer.end - 10, b"\xff" * 10)
        self.change(last + layout.BODY_AT + len(inner.data) - 1, b"\xfe")
        store, _ = self.recovered()
        self.assertWhole(store, writer, last)


class QueueTests(RecoveryTestCase):
    def queue_folder(self, topic: str, queue_id: int) -> str:
        return os.path.join(self.root, "consumequeue", topic, str(queue_id))

    def test_B95_a_missing_queue_is_rebuilt_after_a_clean_exit(self) -> None:
        writer = LogBuilder().fill_files(5)
        self.written(writer)
        shutil.rmtree(self.queue_folder("Topic1", 2))
        store, report = self.recovered(unclean=False)
        self.assertWhole(store, writer, writer.end)
        self.assertEqual(report.dispatched_from, 0)
        self.assertEqual(self.warnings("rebuilding"), 1)

    def test_B95_a_missing_queue_with_old_messages_only_is_rebuilt(self) -> None:
        writer = LogBuilder()
        writer.add("Rare", 7)
        writer.fill_files(6)
        self.written(writer)
        shutil.rmtree(os.path.join(self.root, "consumequeue", "Rare"))
        store, _ = self.recovered(unclean=False)
        self.assertWhole(store, writer, writer.end)

    def test_all_queues_missing(self) -> None:
        writer = LogBuilder().fill_files(3)
        self.written(writer)
        shutil.rmtree(os.path.join(self.root, "consumequeue"))
        store, _ = self.recovered(unclean=False)
        self.assertWhole(store, writer, writer.end)

    def test_a_queue_that_ends_early(self) -> None:
        writer = LogBuilder().fill_files(4)
        self.written(writer)
        for unclean in (False, True):
            store = self.opened()
            store.queues.recover()
            store.queues.get("Topic0", 1).truncate(FILE_SIZE + 500)
            store.close()
            store, report = self.recovered(unclean=unclean)
            self.assertWhole(store, writer, writer.end)
            self.assertEqual(report.dispatched_from, 0 if unclean else FILE_SIZE)
            store.close()

    def test_the_newest_entry_of_all_with_any_bit_of_its_size_changed(self) -> None:
        """Where a smaller one says that its record ends, no record begins."""
        writer = LogBuilder().fill_files(2)
        self.written(writer)
        entry = layout.QUEUE_ENTRY.pack(writer.offsets[-1], writer.end - writer.offsets[-1], 0)[:12]
        paths = Path(self.root, "consumequeue").glob("*/*/*")
        ((path, raw),) = [(path, raw) for path in paths if entry in (raw := path.read_bytes())]
        for bit, unclean, index in itertools.product(range(32), (False, True), (True, False)):
            changed = bytearray(raw)
            changed[raw.index(entry) + 8 + bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            store = self.opened(index=index)
            store.recover(unclean=unclean)
            if index:
                self.assertWhole(store, writer, writer.end)
            else:
                self.assertEqual(store.contents(), queues_of(entries_of(bytes(writer.data))))
            store.close()

    def test_a_queue_with_a_hole_from_a_page_that_never_reached_the_disk(self) -> None:
        writer = LogBuilder().fill_files(4)
        self.written(writer)
        path = Path(self.queue_folder("Topic0", 1), layout.file_name(0))
        raw = bytearray(path.read_bytes())
        raw[400:900] = bytes(500)
        path.write_bytes(raw)
        store, _ = self.recovered()
        self.assertWhole(store, writer, writer.end)

    def test_clean_exit_of_an_up_to_date_store_dispatches_next_to_nothing(self) -> None:
        writer = LogBuilder().fill_files(4)
        self.written(writer)
        _, report = self.recovered(unclean=False)
        self.assertLess(report.dispatched_bytes, 200)

    def test_queue_entries_beyond_the_end_are_cut(self) -> None:
        writer = LogBuilder().fill(60)
        self.written(writer)
        self.change(writer.offsets[40], bytes(writer.end - writer.offsets[40]))
        store, _ = self.recovered()
        self.assertWhole(store, writer, writer.offsets[40])

    def test_next_queue_offsets(self) -> None:
        writer = LogBuilder().fill(60)
        self.written(writer, dispatched=False)
        store, _ = self.recovered()
        self.assertEqual(store.queues.offsets(), {(f"Topic{t}", q): 10 for t in range(2) for q in range(3)})

    def test_expired_log_files_leave_queues_that_begin_in_mid_stream(self) -> None:
        writer = LogBuilder().fill_files(4)
        self.written(writer)
        self.log_file(0).unlink()
        shutil.rmtree(self.queue_folder("Topic0", 0))
        store, _ = self.recovered(unclean=False)
        queue = store.queues.get("Topic0", 0)
        wanted = [
            entry
            for entry in entries_of(bytes(writer.data[FILE_SIZE:]), FILE_SIZE)
            if (entry.topic, entry.queue_id) == ("Topic0", 0)
        ]
        self.assertEqual(
            (queue.min_offset, queue.max_offset), (wanted[0].queue_offset, wanted[-1].queue_offset + 1)
        )


class IndexTests(RecoveryTestCase):
    def test_rocketmq_fault_unclean_exit_costs_the_newest_index_file(self) -> None:
        writer = LogBuilder().fill_files(6)
        self.written(writer)
        store = self.opened()
        # Queues and log are on disk up to the last file: only that one is dispatched again.
        store.checkpoint.physic_timestamp = store.checkpoint.logics_timestamp = 1 << 60
        report = store.recover(unclean=True)
        self.assertEqual(report.start, store.files.starts[-1])
        self.assertWhole(store, writer, writer.end)

    def test_rocketmq_fault_stale_index_items_keep_new_records_out(self) -> None:
        writer = LogBuilder().fill(60)
        self.written(writer)
        cut = writer.offsets[40]
        self.change(cut, bytes(writer.end - cut))
        store, report = self.recovered()
        self.assertEqual(report.index_items_cut, 3 * 20)
        again = LogBuilder().fill(40)
        for number in range(10):
            again.add("New", 0, raw=b"UNIQ_KEY\x01n%d" % number)
        store.files.write(cut, (bytes(again.data[cut:]),))
        store.log.set_end(again.end)
        store.dispatch_all()
        self.assertWhole(store, again, again.end)
        assert store.index is not None
        self.assertEqual(store.index.query("New", "n3", 9, 0, 1 << 60), [again.offsets[43]])

    def test_rocketmq_fault_record_at_the_last_indexed_offset_is_indexed_again(self) -> None:
        writer = LogBuilder().fill(30)
        self.written(writer)
        for unclean in (True, False, True):
            store, _ = self.recovered(unclean=unclean)
            self.assertWhole(store, writer, writer.end)
            store.close()

    def test_missing_index_is_rebuilt(self) -> None:
        writer = LogBuilder().fill_files(3)
        self.written(writer)
        shutil.rmtree(os.path.join(self.root, "index"))
        store, _ = self.recovered(unclean=False)
        self.assertWhole(store, writer, writer.end)

    def test_rebuilt_bytes_equal_those_of_a_store_that_was_never_stopped(self) -> None:
        writer = LogBuilder().fill_files(3)
        self.written(writer)
        (path,) = Path(self.root, "index").iterdir()
        expected = path.read_bytes()
        raw = bytearray(expected)
        at = 40 + 4 * SLOTS + 20 * 300
        raw[at : at + 4000] = bytes(4000)
        path.write_bytes(raw)
        store, _ = self.recovered()
        store.close()
        self.assertTrue(path.read_bytes() == expected)

    def test_full_disk_while_rebuilding_is_an_error(self) -> None:
        writer = LogBuilder().fill(30)
        self.written(writer, dispatched=False)

        def no_space(*_: object) -> None:
            raise OSError(28, "No space left on device")

        store = self.opened()
        self.patch(os, "posix_fallocate", no_space)
        self.assertRaises(StoreFull, store.recover, unclean=True)


class CrashTests(RecoveryTestCase):
    def test_whatever_a_crash_leaves_comes_out_whole(self) -> None:
        for seed in range(25):
            with self.subTest(seed=seed):
                self.crash(random.Random(seed))

    def crash(self, choice: random.Random) -> None:
        """A log written up to any byte, dispatched up to any record before it, some pages lost on the way."""
        shutil.rmtree(self.root, ignore_errors=True)
        writer = LogBuilder().fill(choice.randrange(20, 900), choice.randrange(1, 4), choice.randrange(1, 5))
        dispatched = choice.choice(writer.offsets)
        cut = choice.randrange(dispatched, writer.end + 1)
        self.written(writer, dispatched=False)
        # Queues look for holes in their last three files: a crash doesn't lose what is older than that.
        store = self.opened(queue_file_size=8000)
        store.log.set_end(dispatched)
        store.dispatch_all()
        store.close()
        ends = [entry.physical_offset + entry.size for entry in entries_of(bytes(writer.data))]
        whole = max((end for end in ends if end <= cut), default=0)
        for start in range(0, writer.end, FILE_SIZE):
            if cut < start + FILE_SIZE:
                self.change(max(start, cut), bytes(start + FILE_SIZE - max(start, cut)))
        for folder in ("consumequeue", "index"):
            for path in sorted(Path(self.root, folder).rglob("*")):
                if path.is_file() and choice.random() < 0.5:
                    raw = bytearray(path.read_bytes())
                    at = choice.randrange(len(raw)) // 512 * 512
                    raw[at : at + 512] = bytes(len(raw[at : at + 512]))
                    path.write_bytes(raw)
        store = self.opened(queue_file_size=8000)
        store.recover(unclean=True)
        blank = whole % FILE_SIZE and writer.data[whole + 4 : whole + 8] == layout.MAGIC_BLANK.to_bytes(
            4, "big"
        )
        rolled = blank and cut >= whole + layout.BLANK_HEAD_SIZE
        self.assertWhole(store, writer, whole - whole % FILE_SIZE + FILE_SIZE if rolled else whole)
        store.close()


class ProgressTests(RecoveryTestCase):
    def test_progress_rises_to_its_total(self) -> None:
        self.patch(recovery_module, "PROGRESS_BYTES", 1000)
        writer = LogBuilder(2 * FILE_SIZE).fill_files(4)
        self.written(writer, dispatched=False)
        seen: list[tuple[int, int]] = []
        store = self.opened()
        store.recover(unclean=True, progress=lambda done, total: seen.append((done, total)))
        self.assertGreater(len(seen), 4)
        self.assertEqual([done for done, _ in seen], sorted(done for done, _ in seen))
        self.assertTrue(all(done <= total for done, total in seen))
        self.assertEqual(seen[-1][0], seen[-1][1])


class CoverageTests(RecoveryTestCase):
    def uncovered(self, change: Callable[[SampleStore], object] = lambda store: None) -> int | None:
        writer = LogBuilder().fill_files(5)
        self.written(writer)
        store = self.opened()
        store.queues.recover()
        change(store)
        return first_incomplete_file(store.files, store.queues, writer.end)

    def test_every_record_has_its_entry(self) -> None:
        self.assertIsNone(self.uncovered())

    def test_the_file_of_the_first_missing_entry_is_named(self) -> None:
        self.assertEqual(
            self.uncovered(lambda store: store.queues.get("Topic1", 1).truncate(2 * FILE_SIZE + 9000)),
            2 * FILE_SIZE,
        )

    def test_entries_beyond_the_end_hide_none_before_it(self) -> None:
        """Only the process was killed: queues name what is in log files that are dispatched again anyway."""
        self.patch(queuecompleteness, "BLOCK", 4)
        writer = LogBuilder().fill_files(3)
        self.written(writer)
        store = self.opened()
        store.queues.recover()
        self.assertIsNone(first_incomplete_file(store.files, store.queues, 2 * FILE_SIZE))

    def test_one_entry_too_few_at_the_very_end(self) -> None:
        writer = LogBuilder().fill_files(2)
        self.written(writer)
        store = self.opened()
        store.queues.recover()
        store.queues.truncate(writer.end - 1)
        self.assertEqual(first_incomplete_file(store.files, store.queues, writer.end), FILE_SIZE)


class LogEndTests(RecoveryTestCase):
    def files(self, writer: LogBuilder) -> FileQueue:
        writer.save(Path(self.root))
        files = FileQueue(PosixFileSystem(), os.path.join(self.root, "commitlog"), FILE_SIZE)
        files.load()
        self.addCleanup(files.close)
        return files

    def test_written_end(self) -> None:
        writer = LogBuilder().fill_files(2)
        files = self.files(writer)
        self.assertEqual(written_end(files, 0), writer.end)
        self.assertEqual(written_end(files, writer.end), writer.end)

    def test_space_that_was_only_reserved_is_not_read(self) -> None:
        """Reading it would fill the page cache with zeros, at every restart."""
        writer = LogBuilder().fill(3)
        files = self.files(writer)
        end = written_end(files, 0)
        fs = FaultyFileSystem()
        path = os.path.join(self.root, "commitlog", "00000000000000000000")
        with open(path, "r+b") as file:
            file.truncate(end)
            os.posix_fallocate(file.fileno(), 0, 8 << 20)
        reserved = FileQueue(fs, os.path.join(self.root, "commitlog"), 8 << 20)
        reserved.load()
        self.addCleanup(reserved.close)
        self.assertEqual(written_end(reserved, 0), end)
        read = sum(call.size for call in fs.calls if call.operation == "pread")
        self.assertLess(read, 2 << 20)
        # Bytes beyond it are found all the same.
        with open(path, "r+b") as file:
            file.seek(6 << 20)
            file.write(b"torn")
        self.assertEqual(written_end(reserved, 0), (6 << 20) + 4)

    def test_every_record_is_found_by_its_magic(self) -> None:
        writer = LogBuilder().fill_files(3)
        found = [record.physical_offset for record in records_after(self.files(writer), 0, writer.end)]
        self.assertEqual(found, writer.offsets)

    def test_record_heads_on_the_edge_of_a_chunk_are_found_once(self) -> None:
        writer = LogBuilder().fill(40)
        files = self.files(writer)
        for size in (50, 97, 128):
            self.patch(recordsearch_module, "CHUNK", size)
            found = [record.physical_offset for record in records_after(files, 0, writer.end)]
            self.assertEqual(found, writer.offsets)
