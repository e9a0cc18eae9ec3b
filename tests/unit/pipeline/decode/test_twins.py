"""Compiled or not, the decoder makes the same batches of the same bytes, whole or damaged."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.pipeline.decode import bodies, decode, logreader, plainproperties, ragged
from hatwisted.pipeline.decode.filebytes import PREFIX, new_buffer
from hatwisted.pipeline.decode.logreader import Damage, read_split
from hatwisted.pipeline.decode.propertycolumns import PropertyColumns
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import DamagedLogRange, WrongLogFile
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled
from tests.support.logdrafts import PROPERTIES, Draft, drafts, lay_out, logs_of, plain

FILE_SIZE = 4096
PLACES = (
    (decode, "plain_columns"),
    (logreader, "plain_columns"),
    (ragged, "copy_spans"),
    (bodies, "span_crcs"),
    (plainproperties, "plain_pairs"),
    (plainproperties, "split_spans"),
)
"""Where the decoder takes a twin."""

Chance = st.randoms(use_true_random=False)
PLAIN_AREAS = PROPERTIES.filter(bytes.isascii)


class TwinsCase(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        self.twin = compiled()

    def use(self, is_compiled: bool) -> None:
        """From here on the decoder takes this twin."""
        for module, name in PLACES:
            self.patch(module, name, getattr(self.twin, name) if is_compiled else None)

    def both(self, found: Any) -> tuple[Any, Any]:
        """What something gives by Python, and what it gives compiled."""
        self.use(False)
        expected = found()
        self.use(True)
        return expected, found()


class LogTests(TwinsCase):
    @examples(30)
    @given(
        st.lists(st.one_of(drafts(), st.binary(max_size=99).map(plain)), max_size=12), st.booleans(), Chance
    )
    def test_a_buffer(self, found: list[Draft], is_whole: bool, chance: random.Random) -> None:
        data = bytearray(b"".join(lay_out(found, 1 << 20).files.values()).rstrip(b"\0"))
        if data and not is_whole:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)

        def rows() -> Any:
            try:
                return list(decode.decode_batches(data, base=0, broker="b", file="f"))
            except DamagedLogRange as error:
                return str(error)

        expected, told = self.both(rows)
        self.assertEqual(told, expected)

    @examples(30)
    @given(logs_of(1, 20), st.integers(0, 4), st.sampled_from([64, 700, 1 << 20]), Chance)
    def test_a_store(self, found: list[Draft], harms: int, read_size: int, chance: random.Random) -> None:
        log = lay_out(found, FILE_SIZE)
        files = {base: bytearray(data) for base, data in log.files.items()}
        for _ in range(harms):
            data = chance.choice(list(files.values()))
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        folder = Path(self.mktemp())
        (folder / "commitlog").mkdir(parents=True)
        for base, data in files.items():
            (folder / "commitlog" / f"{base:020d}").write_bytes(data)

        def rows() -> Any:
            damages: list[Damage] = []
            one = partial(read_split, mode="permissive", damages=damages.append, read_size=read_size)
            try:
                splits = LogStore.open(str(folder), "b").splits()
            except WrongLogFile as error:
                return str(error)
            return [batch for split in splits for batch in one(split)], damages

        expected, told = self.both(rows)
        self.assertEqual(told, expected)


class PropertiesTests(TwinsCase):
    def compare(self, areas: list[bytes]) -> None:
        octets = new_buffer(sum(map(len, areas)))
        octets[PREFIX:] = bytearray(b"".join(areas))
        edges = [PREFIX]
        for area in areas:
            edges.append(edges[-1] + len(area))
        starts, ends = np.array(edges[:-1]), np.array(edges[1:])

        def columns(found: Any) -> list[pa.Array]:
            arrays = [found.tags(), found.keys(), found.unique_keys(), found.maps()]
            for array in arrays:
                array.validate(full=True)
            return arrays

        self.use(False)
        expected = columns(PropertyColumns(octets, starts, ends))
        self.use(True)
        taken = plainproperties.plain_properties(octets, starts, ends)
        assert taken is not None
        self.assertEqual(columns(taken), expected)

    @examples(100)
    @given(st.lists(PLAIN_AREAS, min_size=1, max_size=8))
    def test_plain_ones(self, areas: list[bytes]) -> None:
        self.compare(areas)

    def test_values_that_arent_ascii_or_not_even_utf8(self) -> None:
        self.compare([b"TAGS\x01\xc3\x84\x02KEYS\x01\xff \xe2\x82 k\x02UNIQ_KEY\x01\xfe", b"", b"a\x01\xf0"])
        self.compare([b"TAGS\x01x\x02TAGS\x01\xff", b"TAGS\x01\xff\x02TAGS\x01x"])

    def test_none_at_all(self) -> None:
        self.compare([b""])
        self.compare([b"", b"\x01\x02", b"TAGS\x01"])

    def test_what_isnt_plain_is_left_to_the_other_way(self) -> None:
        octets = new_buffer(4)
        octets[PREFIX:] = bytearray(b"\xc3\x84\x01x")
        starts, ends = np.array([PREFIX]), np.array([PREFIX + 4])
        self.use(True)
        self.assertIsNone(plainproperties.plain_properties(octets, starts, ends))
        self.assertIsNone(plainproperties.plain_properties(octets, starts[:0], ends[:0]))
