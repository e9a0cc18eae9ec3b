"""Java string hashes, many at once: the fast way against the plain definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.logcodec.keyhash import WIDTHS, hash_spans, index_hash, index_hashes
from hatwisted.wire.javahash import java_hash
from tests.support.examples import examples


def plain_hash(text: str) -> int:
    """h = 31 h + unit over the UTF-16 units, unsigned."""
    raw = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(raw), 2):
        value = (31 * value + raw[at] * 256 + raw[at + 1]) & 0xFFFFFFFF
    return value


def spans_of(pieces: list[bytes], lead: bytes = b"") -> tuple[bytes, np.ndarray, np.ndarray]:
    """The pieces one after another, with separators, and where each begins and ends."""
    ends = np.cumsum([len(piece) + 1 for piece in pieces], dtype=np.int64) + len(lead) - 1
    starts = ends - np.array([len(piece) for piece in pieces], dtype=np.int64)
    return lead + b"".join(piece + b"\x02" for piece in pieces), starts, ends


class HashSpansTests(SynchronousTestCase):
    def test_known_hashes(self) -> None:
        data, starts, ends = spans_of([b"Tag1", "🚀".encode(), b""])
        hashes, units = hash_spans(data, starts, ends)
        self.assertEqual(hashes.tolist(), [2598903, 1773027, 0])
        self.assertEqual(units.tolist(), [4, 2, 0])

    def test_every_length_across_all_widths(self) -> None:
        texts = ["".join(chr(33 + (7 * k + n) % 90) for k in range(n)) for n in range(0, WIDTHS[-1] + 40, 3)]
        data, starts, ends = spans_of([text.encode() for text in texts])
        hashes, units = hash_spans(data, starts, ends)
        self.assertEqual(hashes.tolist(), [plain_hash(text) for text in texts])
        self.assertEqual(units.tolist(), [len(text) for text in texts])

    def test_one_length_only(self) -> None:
        for length in (1, *WIDTHS, WIDTHS[-1] + 1):
            texts = [chr(65 + k) * length for k in range(20)]
            data, starts, ends = spans_of([text.encode() for text in texts])
            self.assertEqual(hash_spans(data, starts, ends)[0].tolist(), [plain_hash(text) for text in texts])

    def test_nothing_to_hash(self) -> None:
        none = np.zeros(0, np.int64)
        hashes, units = hash_spans(b"abc", none, none)
        self.assertEqual((len(hashes), len(units)), (0, 0))

    def test_broken_utf8_hashes_as_java_reads_it(self) -> None:
        data, starts, ends = spans_of([b"ok", b"a\xffb", b"\xe2\x82"])
        expected = [plain_hash("ok"), plain_hash("a\ufffdb"), plain_hash("\ufffd")]
        self.assertEqual(hash_spans(data, starts, ends)[0].tolist(), expected)

    @examples(30)
    @given(st.lists(st.text(max_size=80), max_size=30), st.binary(max_size=300))
    def test_any_text_anywhere(self, texts: list[str], lead: bytes) -> None:
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        data, starts, ends = spans_of([text.encode() for text in texts], lead)
        hashes, units = hash_spans(data, starts, ends)
        self.assertEqual(hashes.tolist(), [plain_hash(text) for text in texts])
        self.assertEqual(units.tolist(), [len(text.encode("utf-16-be")) // 2 for text in texts])


class IndexHashTests(SynchronousTestCase):
    def test_golden_key(self) -> None:
        self.assertEqual(index_hash(java_hash("TopicA#"), b"alt0"), 641566840)

    def test_smallest_int_becomes_zero(self) -> None:
        # "polygenelubricants" is the well-known string whose Java hash is -2**31.
        self.assertEqual(java_hash("polygenelubricants"), -(1 << 31))
        self.assertEqual(index_hash(java_hash("polygene"), b"lubricants"), 0)
        data, starts, ends = spans_of([b"lubricants"])
        prefixes = np.array([java_hash("polygene") & 0xFFFFFFFF], np.uint32)
        self.assertEqual(index_hashes(prefixes, *hash_spans(data, starts, ends)).tolist(), [0])

    @examples(30)
    @given(st.text(max_size=20), st.lists(st.text(max_size=90), min_size=1, max_size=10))
    def test_one_and_many_agree_with_the_definition(self, topic: str, keys: list[str]) -> None:
        clean = [key.encode("utf-8", "replace").decode() for key in keys]
        prefix = java_hash(topic + "#")
        expected = [abs(java_hash(f"{topic}#{key}")) & 0x7FFFFFFF for key in clean]
        self.assertEqual([index_hash(prefix, key.encode()) for key in clean], expected)
        data, starts, ends = spans_of([key.encode() for key in clean])
        prefixes = np.full(len(clean), prefix & 0xFFFFFFFF, np.uint32)
        self.assertEqual(index_hashes(prefixes, *hash_spans(data, starts, ends)).tolist(), expected)
