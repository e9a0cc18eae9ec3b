"""A file cut anywhere: the pieces' rows are the file's rows, each once."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hatwisted.logcodec.recordsearch import RecordSearch
from hatwisted.pipeline.decode.filebytes import FileBytes
from hatwisted.pipeline.decode.logreader import read_split
from hatwisted.pipeline.decode.storebytes import open_file
from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.wire.record import encode_record
from tests.support.examples import examples
from tests.support.logdrafts import Draft, Log, lay_out, logs_of, plain, rows_of
from tests.unit.pipeline.decode.storecase import StoreCase

FILE_SIZE = 4096


def pieces(split: Split, cuts: list[int]) -> list[Split]:
    """The split cut at these offsets, none of the pieces known to begin with a record."""
    edges = [split.begin, *sorted(cut for cut in set(cuts) if split.begin < cut < split.end), split.end]
    return [
        replace(split, begin=begin, end=end, aligned=False)
        for begin, end in zip(edges[:-1], edges[1:], strict=True)
    ]


class Splits(StoreCase):
    @examples(12)
    @given(
        logs_of(1, 20),
        st.lists(st.integers(0, 4 * FILE_SIZE), max_size=12),
        st.integers(200, 3000),
        st.integers(1, 7),
    )
    def test_any_cuts_any_read_size_any_batch_size(
        self, found: list[Draft], cuts: list[int], read_size: int, batch_rows: int
    ) -> None:
        log = lay_out(found, FILE_SIZE)
        store = self.store(log)
        self.assertEqual(store.end(), log.end)
        whole = rows_of(batch for split in store.splits() for batch in read_split(split))
        self.assertEqual(whole, log.rows("b"))
        parts = [piece for split in store.splits() for piece in pieces(split, cuts)]
        batches = [
            batch
            for piece in parts
            for batch in read_split(piece, batch_rows=batch_rows, read_size=read_size)
        ]
        self.assertEqual(rows_of(batches), whole)
        self.assertTrue(all(0 < batch.num_rows <= batch_rows for batch in batches))

    @examples(12)
    @given(logs_of(1, 20), st.data())
    def test_boundaries_of_any_offset(self, found: list[Draft], data: st.DataObject) -> None:
        log = lay_out(found, FILE_SIZE, first=8 * FILE_SIZE)
        store = self.store(log)
        self.assertEqual(store.min_offset, 8 * FILE_SIZE)
        offset = data.draw(st.integers(8 * FILE_SIZE - 10, log.end + 10))
        starts = [record.physical_offset for record in log.records]
        behind = store.boundary_at_or_after(offset)
        self.assertEqual(behind, min((start for start in starts if start >= offset), default=log.end))
        before = store.boundary_at_or_before(offset)
        ends = [record.physical_offset + record.total_size for record in log.records]
        self.assertEqual(
            before, max((edge for edge in [*starts, *ends] if edge <= offset), default=starts[0])
        )

    @examples(12)
    @given(logs_of(1, 20), st.data())
    def test_any_look_back_finds_the_chain(self, found: list[Draft], data: st.DataObject) -> None:
        log = lay_out(found, 1 << 14)
        path = log.write(self.folder / f"look{self.made}") / "commitlog" / f"{0:020d}"
        self.made += 1
        end = min(log.end, 1 << 14)
        offset = data.draw(st.integers(0, end))
        look_back = data.draw(st.integers(1, 600))
        with open_file(str(path)) as file:
            search = RecordSearch(FileBytes(file, 0, 1 << 14), 0, end, look_back)
            starts = [record.physical_offset for record in log.records]
            expected = min((start for start in starts if offset <= start < end), default=end)
            self.assertEqual(search.at_or_after(offset), expected)

    def test_splits_cover_the_log_once_and_no_more(self) -> None:
        store = self.store(lay_out([plain(bytes(700)) for _ in range(30)], FILE_SIZE))
        found = store.splits(split_bytes=1000)
        self.assertEqual(found[0].begin, 0)
        self.assertEqual(found[-1].end, store.end())
        for one, following in zip(found, found[1:], strict=False):
            self.assertEqual(one.end, following.begin)
        self.assertLessEqual(max(split.end - split.begin for split in found), 1000)
        self.assertEqual({split.limit for split in found}, {None, store.end()})
        self.assertEqual(store.splits(store.end()), [])
        with self.assertRaises(ValueError):
            store.splits(split_bytes=0)

    def test_records_larger_than_what_is_read_at_once(self) -> None:
        found = [plain(bytes([index]) * size) for index, size in enumerate((10, 300_000, 5, 700_000, 40))]
        log = lay_out(found, 1 << 20)
        for read_size in (100, 1000, 65_536):
            for cut in (1, 150, 250_000, 400_000):
                parts = [part for split in self.store(log).splits() for part in pieces(split, [cut])]
                rows = rows_of(batch for part in parts for batch in read_split(part, read_size=read_size))
                self.assertEqual([len(row["body"]) for row in rows], [10, 300_000, 5, 700_000, 40])


class RecordsInBodies(StoreCase):
    """Bodies that hold whole records with the very offsets where they lie: only the chain tells."""

    def log(self, fakes: int) -> Log:
        """Ten records; the sixth's body begins with `fakes` records that are right where they lie."""
        honest = [plain(bytes(200)) for _ in range(10)]
        at = lay_out(honest[:5], 1 << 20).end + 88
        parts = []
        for _ in range(fakes):
            fake = msgspec.structs.replace(plain(b"fake").record, physical_offset=at, topic="Fake")
            parts.append(encode_record(fake))
            at += len(parts[-1])
        honest[5] = plain(b"".join(parts) + b"and then something else")
        return lay_out(honest, 1 << 20)

    def test_any_cut_and_any_distance_of_looking_back(self) -> None:
        for fakes in (1, 2, 30):
            log = self.log(fakes)
            store = self.store(log)
            (split,) = store.splits()
            begin = log.records[5].physical_offset
            expected = [record.physical_offset for record in log.records]
            for cut in range(begin - 20, begin + log.records[5].total_size + 20, 29):
                found = [
                    offset
                    for piece in pieces(split, [cut])
                    for batch in read_split(piece, ["physical_offset"], read_size=500)
                    for offset in batch.column(0).to_pylist()
                ]
                self.assertEqual(found, expected, f"{fakes} fakes, cut at {cut}")

    def test_a_look_back_that_ends_inside_the_body_goes_further(self) -> None:
        log = self.log(30)
        store = self.store(log)
        sixth, seventh = log.records[5], log.records[6]
        with open_file(store.files[0].path) as file:
            for look_back in (50, 100, 200, 1000):
                search = RecordSearch(FileBytes(file, 0, 1 << 20), 0, log.end, look_back)
                for offset in range(sixth.physical_offset + 1, seventh.physical_offset + 1, 37):
                    self.assertEqual(
                        search.at_or_after(offset),
                        seventh.physical_offset,
                        f"offset {offset}, {look_back} bytes back",
                    )

    def test_a_chain_in_a_body_that_leads_out_of_it(self) -> None:
        """The last fake shares the real record's topic and properties, so that nothing breaks after it; and the
        body is longer than what is looked at first."""
        honest = [plain(bytes(200)) for _ in range(10)]
        sixth_at = lay_out(honest[:5], 1 << 20).end
        tail = len(encode_record(plain(b"").record)) - 88
        at, parts = sixth_at + 88, []
        while len(parts) < 300:
            fake = encode_record(
                msgspec.structs.replace(
                    plain(bytes(2000)).record, physical_offset=at, queue_offset=len(parts)
                )
            )
            parts.append(fake if len(parts) < 299 else fake[:-tail])
            at += len(fake)
        honest[5] = plain(b"".join(parts))
        log = lay_out(honest, 1 << 20)
        sixth, seventh = log.records[5], log.records[6]
        self.assertEqual(at, seventh.physical_offset)
        store = self.store(log)
        for back in (10, 2_500, 100_000, 600_000):
            self.assertEqual(
                store.boundary_at_or_after(seventh.physical_offset - back), seventh.physical_offset
            )
        self.assertEqual(store.boundary_at_or_before(seventh.physical_offset - 10), sixth.physical_offset)
