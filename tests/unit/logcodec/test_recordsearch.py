"""The rule of proof: what counts as a record where the chain of sizes doesn't lead."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec import rivalrecords
from hatwisted.logcodec.recordsearch import RecordSearch, records_after
from hatwisted.logcodec.rivalrecords import WHOLE, RivalRecords
from hatwisted.wire import layout
from hatwisted.wire.record import encode_record, make_record
from tests.support.examples import examples
from tests.support.memorylog import MemoryLog

FILE_SIZE = 1 << 16


def log_of(data: bytes) -> MemoryLog:
    """One log file with `data` at its beginning."""
    log = MemoryLog(FILE_SIZE)
    log.append(data.ljust(FILE_SIZE, b"\0"))
    return log


def record(at: int, body: bytes, properties: bytes = b"TAGS\x01t") -> bytes:
    return encode_record(make_record("T", body, raw_properties=properties, physical_offset=at))


def forged(at: int, count: int) -> bytes:
    """A body for a record at `at` that holds records in a row, each naming the offset it lies at."""
    body = b""
    for _ in range(count):
        body += record(at + layout.BODY_AT + len(body), b"forged")
    return body


def log_with_carrier(front: int, count: int, rest: bytes) -> tuple[bytes, int]:
    """Some honest records, then one with forged ones in its body; and where that begins."""
    data = b""
    for _ in range(front):
        data += record(len(data), b"honest" * 5)
    return data + record(len(data), forged(len(data), count) + rest), len(data)


def crossed(at: int, count: int) -> bytes:
    """A body for a record at `at`: heads within one another, and one inside them all that reaches further."""
    first = at + layout.BODY_AT
    behind = len(record(0, b"")) - layout.BODY_AT
    own = first + count * layout.BODY_AT
    crossing = record(own, bytes(count * behind))
    body = crossing[: layout.BODY_AT]
    for number in reversed(range(count)):
        body = record(first + number * layout.BODY_AT, body)
    body += crossing[-behind:]
    return body + record(first + len(body), b"on")


class ProofTests(SynchronousTestCase):
    @examples(20)
    @given(st.integers(0, 3), st.integers(1, 6), st.binary(max_size=300), st.data())
    def test_nothing_in_a_torn_record_counts(
        self, front: int, count: int, rest: bytes, data: st.DataObject
    ) -> None:
        whole, at = log_with_carrier(front, count, rest)
        kept = data.draw(st.integers(at + layout.BODY_AT, len(whole) - 1))
        self.assertEqual(list(records_after(log_of(whole[:kept]), at, kept)), [])

    @examples(20)
    @given(st.integers(1, 6), st.binary(max_size=300), st.data())
    def test_behind_a_damaged_body_the_chain_goes_on_at_its_end(
        self, count: int, rest: bytes, data: st.DataObject
    ) -> None:
        whole, at = log_with_carrier(1, count, rest)
        end = len(whole)
        whole += record(end, b"behind")
        bad = bytearray(whole)
        bad[data.draw(st.integers(at + layout.BODY_AT, at + layout.BODY_AT + 20))] ^= 0x55
        found = list(records_after(log_of(bytes(bad)), at, len(whole)))
        self.assertEqual([one.physical_offset for one in found], [end])

    @examples(25)
    @given(st.integers(0, layout.BODY_AT - 1), st.integers(1, 255))
    def test_one_wrong_byte_of_a_head_hides_no_record(self, position: int, change: int) -> None:
        data, starts = b"", []
        for _ in range(6):
            starts.append(len(data))
            data += record(len(data), b"honest" * 9)
        bad = bytearray(data)
        bad[starts[1] + position] ^= change
        found = list(records_after(log_of(bytes(bad)), starts[1], len(data), check_crc=True))
        self.assertEqual(
            [one.physical_offset for one in found if one.physical_offset > starts[1]], starts[2:]
        )

    def test_a_candidate_that_somebody_knows_to_be_inside_a_record_is_none(self) -> None:
        whole, at = log_with_carrier(1, 2, bytes(50))
        lost = whole[:at] + bytes(layout.BODY_AT) + whole[at + layout.BODY_AT :]
        log = log_of(lost)
        self.assertEqual(len(list(records_after(log, at, len(whole)))), 2)
        held = lambda offset: at < offset < len(whole)  # noqa: E731
        self.assertEqual(list(records_after(log, at, len(whole), held=held)), [])

    def test_from_inside_a_body_the_record_after_it_is_found(self) -> None:
        whole, at = log_with_carrier(2, 5, b"")
        end = len(whole)
        whole += record(end, b"behind")
        search = RecordSearch(log_of(whole), 0, len(whole), look_back=100)
        for offset in range(at + 1, end + 1, 7):
            self.assertEqual(search.at_or_after(offset), end)

    def test_heads_within_one_another_are_read_once_each(self) -> None:
        reads = []
        for count in (20, 80):
            at = len(record(0, b"honest"))
            whole = record(0, b"honest") + record(at, crossed(at, count))
            log = log_of(whole)
            found = RecordSearch(log, at, len(whole)).next_record(at + 1, len(whole))
            self.assertEqual(found, at + layout.BODY_AT * (count + 1))
            reads.append(log.reads)
        self.assertLess(reads[1], 5 * reads[0])


class RivalTests(SynchronousTestCase):
    @examples(100)
    @given(st.dictionaries(st.integers(0, 40), st.integers(0, 12), max_size=25), st.integers(1, 4))
    def test_a_place_counts_unless_one_inside_it_reaches_further(
        self, sizes: dict[int, int], many: int
    ) -> None:
        starts = sorted(sizes)
        reaches = {at: WHOLE if sizes[at] == 12 else at + sizes[at] if sizes[at] else 0 for at in starts}
        expected = [
            at
            for at in starts
            if reaches[at]
            and not any(reaches[other] > reaches[at] for other in starts if at < other < reaches[at])
        ]
        self.patch(rivalrecords, "MANY", many)
        self.assertEqual(list(RivalRecords(iter(starts), reaches.__getitem__)), expected)
