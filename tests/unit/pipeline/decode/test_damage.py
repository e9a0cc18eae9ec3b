"""Damage: what it hits may be lost, nothing else, and nothing that never was a record becomes a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from hatwisted.pipeline.decode.conditions import Condition
from hatwisted.pipeline.decode.logreader import Damage, read_arrow, read_split
from hatwisted.pipeline.errors import DamagedLogRange, PipelineError
from hatwisted.wire.record import encode_record
from tests.support.examples import examples
from tests.support.logdrafts import Draft, Log, lay_out, logs_of, plain, rows_of
from tests.unit.pipeline.decode.storecase import StoreCase
from tests.unit.pipeline.decode.test_splits import pieces

FILE_SIZE = 4096
FILLINGS = st.one_of(
    st.just(b"\0"),
    st.just(b"\xff"),
    st.binary(min_size=1, max_size=40),
    st.just(bytes.fromhex("daa320a7")),
    st.just(bytes.fromhex("00000060daa320a7")),
)


def damaged(log: Log, begin: int, end: int, filling: bytes) -> Log:
    """With [begin, end) overwritten, in whichever files that is."""
    files = {}
    for base, data in log.files.items():
        first, last = max(begin - base, 0), min(end - base, len(data))
        if first < last:
            noise = (filling * (last // len(filling) + 1))[: last - first]
            data = data[:first] + noise + data[last:]
        files[base] = data
    return replace(log, files=files)


class DamageAnywhere(StoreCase):
    @examples(12)
    @given(
        logs_of(2, 30),
        st.data(),
        FILLINGS,
        st.lists(st.integers(0, 4 * FILE_SIZE), max_size=6),
    )
    def test_rows_outside_are_all_there_and_no_others(
        self, found: list[Draft], data: st.DataObject, filling: bytes, cuts: list[int]
    ) -> None:
        log = lay_out(found, FILE_SIZE)
        begin = data.draw(st.integers(0, log.end - 1))
        end = data.draw(st.integers(begin + 1, min(begin + 600, log.end)))
        # The last is left alone: a file of nothing but damage is refused as no log.
        end = min(end, log.records[-1].physical_offset)
        assume(begin < end)
        store = self.store(damaged(log, begin, end, filling))
        told: list[Damage] = []

        def read(cuts: list[int], damages: Any = None) -> list[dict[str, Any]]:
            return rows_of(
                batch
                for split in store.splits()
                for piece in pieces(split, cuts)
                for batch in read_split(piece, mode="skip-and-report", damages=damages, read_size=900)
            )

        rows = read([], told.append)
        originals = {row["physical_offset"]: row for row in log.rows("b")}
        untouched = [
            offset for offset, row in originals.items() if offset + row["size"] <= begin or offset >= end
        ]
        by_offset = {row["physical_offset"]: row for row in rows}
        self.assertEqual(len(by_offset), len(rows))
        self.assertLessEqual(by_offset.keys(), originals.keys())
        for offset in untouched:
            self.assertEqual(by_offset.get(offset), originals[offset])
            self.assertFalse(
                [one for one in told if one.begin < offset + originals[offset]["size"] and one.end > offset]
            )
        self.assertEqual(read(cuts), rows)

    @examples(12)
    @given(logs_of(3, 12), st.data())
    def test_failfast_fails_where_skipping_skips(self, found: list[Draft], data: st.DataObject) -> None:
        log = lay_out(found, 1 << 16)
        victim = data.draw(st.sampled_from(log.records[:-1]))
        at = victim.physical_offset + data.draw(st.integers(4, 7))
        store = self.store(damaged(log, at, at + 1, b"\0" if log.files[0][at] else b"\1"))
        told: list[Damage] = []
        (split,) = store.splits()
        rows = rows_of(read_split(split, mode="skip-and-report", damages=told.append))
        self.assertEqual(len(rows), len(found) - 1)
        behind = victim.physical_offset + victim.total_size
        self.assertEqual([(one.begin, one.end) for one in told], [(victim.physical_offset, behind)])
        with self.assertRaisesRegex(
            DamagedLogRange, f"offset {victim.physical_offset} .*continues at {behind}"
        ):
            list(read_split(split))

    @examples(12)
    @given(logs_of(2, 12), st.data(), FILLINGS)
    def test_damage_up_to_the_end_leaves_what_is_in_front(
        self, found: list[Draft], data: st.DataObject, filling: bytes
    ) -> None:
        log = lay_out([plain(b"the first"), *found], FILE_SIZE)
        begin = data.draw(st.integers(log.records[0].total_size, log.end - 1))
        store = self.store(damaged(log, begin, log.end, filling))
        rows = rows_of(read_arrow(store.path, mode="skip-and-report"))
        whole = [row for row in log.rows("b") if row["physical_offset"] + row["size"] <= begin]
        while not whole[-1]["body_crc_ok"]:
            # With nothing after it, it looks like one that is being written.
            whole.pop()
        self.assertEqual(
            [row["physical_offset"] for row in rows[: len(whole)]], [row["physical_offset"] for row in whole]
        )
        starts = {record.physical_offset for record in log.records}
        self.assertLessEqual({row["physical_offset"] for row in rows}, starts)


class Modes(StoreCase):
    def log(self) -> Log:
        """Nine records of which the fifth is broken."""
        log = lay_out([plain(bytes([index]) * 300) for index in range(9)], FILE_SIZE)
        at = log.records[4].physical_offset
        return damaged(log, at + 28, at + 36, b"\x77")

    def test_permissive_has_a_row_for_the_range(self) -> None:
        log = self.log()
        store = self.store(log)
        (split,) = store.splits()
        rows = rows_of(read_split(split, mode="permissive"))
        self.assertEqual(len(rows), 9)
        broken, record = rows.pop(4), log.records[4]
        self.assertEqual(
            {name: value for name, value in broken.items() if value is not None},
            {
                "physical_offset": record.physical_offset,
                "size": record.total_size,
                "body": log.files[0][record.physical_offset :][: record.total_size],
                "broker": "b",
                "file": "0" * 20,
            },
        )
        self.assertEqual([row["body"][0] for row in rows], [0, 1, 2, 3, 5, 6, 7, 8])

    def test_permissive_rows_obey_conditions(self) -> None:
        (split,) = self.store(self.log()).splits()
        only = rows_of(
            read_split(split, ["size"], where=[Condition("topic", "=", "TopicA")], mode="permissive")
        )
        self.assertEqual(len(only), 8)
        none = rows_of(read_split(split, ["size"], where=[Condition("broker", "=", "c")], mode="permissive"))
        self.assertEqual(none, [])

    def test_failfast_names_file_offset_and_reason(self) -> None:
        store = self.store(self.log())
        with self.assertRaisesRegex(
            DamagedLogRange, "commitlog/0{20}: no valid record at offset .*=skip-and-report"
        ):
            read_arrow(store.path).read_all()

    def test_no_such_mode(self) -> None:
        (split,) = self.store(self.log()).splits()
        with self.assertRaisesRegex(
            PipelineError, "no mode 'lenient'; there are: failfast, skip-and-report, permissive"
        ):
            list(read_split(split, mode="lenient"))  # type: ignore[arg-type]

    def test_a_wrong_checksum_is_a_row_that_says_so(self) -> None:
        for times in (1, 200):
            log = lay_out([plain(word * times) for word in (b"right", b"wrong", b"", b"right")], FILE_SIZE)
            at = log.records[1].physical_offset + 88
            (split,) = self.store(damaged(log, at, at + 1, b"W")).splits()
            rows = rows_of(read_split(split, ["body", "body_crc_ok"]))
            self.assertEqual(rows[1]["body"][:5], b"Wrong")
            self.assertEqual([row["body_crc_ok"] for row in rows], [True, False, True, True])

    def test_a_body_that_cant_be_decompressed_is_damage(self) -> None:
        for flags in (0x1, 0x101, 0x201, 0x301, 0x701):
            found = [plain(b"one"), plain(b"not compressed at all", sys_flag=flags), plain(b"three")]
            log = lay_out(found, FILE_SIZE)
            (split,) = self.store(log).splits()
            told: list[Damage] = []
            rows = rows_of(read_split(split, mode="skip-and-report", damages=told.append))
            self.assertEqual([row["body"] for row in rows], [b"one", b"three"])
            self.assertEqual([one.begin for one in told], [log.records[1].physical_offset])
            with self.assertRaises(DamagedLogRange):
                list(read_split(split))
            self.assertEqual(len(rows_of(read_split(split, ["topic"]))), 3)
            self.assertEqual(len(rows_of(read_split(split, mode="permissive"))), 3)


class Ends(StoreCase):
    """What may follow a log's last record."""

    def test_a_record_cut_anywhere_is_not_there_yet(self) -> None:
        log = lay_out([plain(b"one"), plain(b"two" * 20)], FILE_SIZE)
        last = log.records[-1]
        for kept in range(last.total_size):
            torn = damaged(log, last.physical_offset + kept, log.end, b"\0")
            store = self.store(torn)
            self.assertEqual(store.end(), last.physical_offset, f"{kept} bytes of the last record")
            self.assertEqual(len(rows_of(read_arrow(store.path))), 1)

    def test_a_record_without_properties_cut_inside_its_topic(self) -> None:
        record = msgspec.structs.replace(plain(b"two").record, raw_properties=b"")
        log = lay_out([plain(b"one"), Draft(record, b"two")], FILE_SIZE)
        store = self.store(damaged(log, log.end - 4, log.end, b"\0"))
        self.assertEqual(store.end(), log.records[-1].physical_offset)

    def test_a_record_that_was_planned_and_is_gone_is_damage(self) -> None:
        log = lay_out([plain(b"one"), plain(b"two" * 20)], FILE_SIZE)
        (split,) = self.store(log).splits()
        torn = damaged(log, log.end - 10, log.end, b"\0")
        (Path(split.path)).write_bytes(torn.files[0])
        with self.assertRaises(DamagedLogRange):
            list(read_split(split))
        self.assertEqual(len(rows_of(read_split(split, mode="skip-and-report"))), 1)

    def test_older_records_after_the_end_are_what_a_cut_left(self) -> None:
        before = lay_out([plain(bytes(100)) for _ in range(9)], FILE_SIZE)
        after = [msgspec.structs.replace(record, store_timestamp=1 << 42) for record in before.records[:4]]
        after.append(
            msgspec.structs.replace(
                plain(bytes(33)).record,
                physical_offset=before.records[4].physical_offset,
                store_timestamp=1 << 42,
            )
        )
        data = b"".join(encode_record(record) for record in after)
        store = self.store(replace(before, files={0: data + before.files[0][len(data) :]}))
        self.assertEqual(store.end(), len(data))
        self.assertEqual(len(rows_of(read_arrow(store.path))), 5)

    def test_the_search_doesnt_begin_among_what_a_cut_left(self) -> None:
        size = 8 << 20
        before = lay_out([plain(bytes([index]) * 20_000) for index in range(250)], size)
        newer = lay_out([plain(bytes([index]) * 15_000) for index in range(120)], size)
        records = [msgspec.structs.replace(record, store_timestamp=1 << 42) for record in newer.records]
        data = b"".join(encode_record(record) for record in records)
        store = self.store(replace(before, files={0: data + before.files[0][len(data) :]}))
        self.assertEqual(store.end(), len(data))

    def test_a_later_end_is_found_from_the_earlier(self) -> None:
        log = lay_out([plain(bytes(100)) for _ in range(90)], FILE_SIZE)
        early = damaged(log, log.records[40].physical_offset, log.end, b"\0")
        only = {base: data for base, data in early.files.items() if any(data)}
        store = self.store(replace(early, files=only))
        self.assertEqual(store.end(), log.records[40].physical_offset)
        for base, data in log.files.items():
            Path(store.path, "commitlog", f"{base:020d}").write_bytes(data)
        self.assertEqual(store.end(), log.end)
        self.assertEqual(len(store.files), len(log.files))

    def test_an_earlier_end_that_was_cut_back_is_found_again(self) -> None:
        log = lay_out([plain(bytes(100)) for _ in range(15)], FILE_SIZE)
        store = self.store(log)
        self.assertEqual(store.end(), log.end)
        cut = damaged(log, log.records[7].physical_offset, log.end, b"\0")
        Path(store.files[0].path).write_bytes(cut.files[0])
        self.assertEqual(store.end(), log.records[7].physical_offset)
        Path(store.files[0].path).write_bytes(log.files[0])
        self.assertEqual(store.end(), log.end)

    def test_a_file_made_ahead_is_no_part_of_the_log(self) -> None:
        log = lay_out([plain(bytes(100)) for _ in range(9)], FILE_SIZE)
        ahead = replace(log, files={**log.files, FILE_SIZE: bytes(FILE_SIZE)})
        store = self.store(ahead)
        self.assertEqual(store.end(), log.end)
        self.assertEqual(len(rows_of(read_arrow(store.path))), 9)

    def test_a_last_file_that_is_full_ends_with_it(self) -> None:
        log = lay_out([plain(bytes(100)) for _ in range(90)], FILE_SIZE)
        full = {base: data for base, data in log.files.items() if base + FILE_SIZE <= log.end}
        store = self.store(replace(log, files=full))
        self.assertEqual(store.end(), len(full) * FILE_SIZE)
        self.assertEqual(
            len(rows_of(read_arrow(store.path))), sum(r.physical_offset < store.end() for r in log.records)
        )

    def test_zeros_in_a_file_that_isnt_the_last_are_damage(self) -> None:
        log = lay_out([plain(bytes(100)) for _ in range(90)], FILE_SIZE)
        victim = next(record for record in log.records if record.physical_offset > FILE_SIZE // 2)
        store = self.store(damaged(log, victim.physical_offset, FILE_SIZE, b"\0"))
        told: list[Damage] = []
        rows = rows_of(read_arrow(store.path, mode="skip-and-report", damages=told.append))
        self.assertEqual([(one.begin, one.end) for one in told], [(victim.physical_offset, FILE_SIZE)])
        self.assertEqual(rows[-1]["physical_offset"], log.records[-1].physical_offset)

    def test_long_bodies_of_zeros_arent_the_end(self) -> None:
        found = [plain(bytes(3 << 20)), plain(b"x"), plain(bytes(2 << 20)), plain(b"last")]
        log = lay_out(found, 16 << 20)
        self.assertEqual(self.store(log).end(), log.end)
