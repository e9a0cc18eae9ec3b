"""Whatever the server's codec can write, the decoder reads as the server's codec does."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.decode.arrowschema import COLUMNS
from hatwisted.pipeline.decode.decode import decode_buffer
from hatwisted.pipeline.errors import DamagedLogRange
from hatwisted.wire.record import encode_record
from tests.support.examples import examples
from tests.support.logdrafts import Draft, drafts, plain, row_of, rows_of

BASE = 1 << 40


def placed(found: list[Draft]) -> tuple[bytes, list[dict[str, object]]]:
    """The records back to back from BASE on, and their rows."""
    at, parts, rows = BASE, [], []
    for draft in found:
        record = msgspec.structs.replace(draft.record, physical_offset=at)
        parts.append(encode_record(record))
        rows.append(row_of(record, draft.body, "b", "f"))
        at += record.total_size
    return b"".join(parts), rows


class AgainstTheServersCodec(SynchronousTestCase):
    @examples(20)
    @given(st.lists(drafts(), max_size=12), st.booleans())
    def test_every_column(self, found: list[Draft], is_placed: bool) -> None:
        data, rows = placed(found)
        batch = decode_buffer(data, base=BASE if is_placed else None, broker="b", file="f")
        self.assertEqual(rows_of([batch]), rows)

    @examples(20)
    @given(st.lists(drafts(), max_size=6), st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True))
    def test_some_columns_are_the_same_as_among_all(self, found: list[Draft], columns: list[str]) -> None:
        data, rows = placed(found)
        batch = decode_buffer(data, columns, base=BASE, broker="b", file="f")
        self.assertEqual(batch.schema.names, columns)
        self.assertEqual(rows_of([batch]), [{name: row[name] for name in columns} for row in rows])

    @examples(12)
    @given(st.lists(drafts(), min_size=1, max_size=4), st.data())
    def test_a_missing_byte_is_an_error_and_never_rows(self, found: list[Draft], data: st.DataObject) -> None:
        whole, _ = placed(found)
        cut = data.draw(st.integers(1, found[-1].record.total_size - 1))
        with self.assertRaises(DamagedLogRange):
            decode_buffer(whole[:-cut], base=BASE, broker="b", file="f")

    def test_a_place_that_isnt_the_records_own(self) -> None:
        data, _ = placed([plain(b"one"), plain(b"two")])
        with self.assertRaisesRegex(DamagedLogRange, "f: no whole record at byte 0 .*physical offset"):
            decode_buffer(data, base=BASE + 1, broker="b", file="f")

    def test_a_name_thirty_times_and_thirty_names(self) -> None:
        many = "\x02".join(f"name{index}\x01{index}" for index in range(30)).encode()
        same = "\x02".join(f"name\x01{index}" for index in range(30)).encode()
        found = [plain(b""), plain(b""), plain(b"")]
        for draft, raw in zip(
            list(found), (many, same, many + b"\x02" + same + b"\x02name7\x01x"), strict=True
        ):
            record = msgspec.structs.replace(draft.record, raw_properties=raw)
            found.append(Draft(msgspec.structs.replace(record, total_size=len(encode_record(record))), b""))
        data, rows = placed(found)
        self.assertEqual(rows_of([decode_buffer(data, base=BASE, broker="b", file="f")]), rows)
        self.assertEqual(rows[4]["properties"], {"name": "29"})
        self.assertEqual(rows[5]["properties"]["name7"], "x")
