"""What becomes of puts besides their answers: both twins count and let go alike."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.store.log.put import Put, PutStatus
from hatwisted.wire.remoting import RemotingCommand, SendCommand, SignedSendCommand
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, twins


class OtherPut(Put):
    """One that the compiled twin has no place for."""


@st.composite
def settled(draw: st.DrawFn) -> Put:
    topic = draw(st.sampled_from(["A", "B", "".join(["A", ""]), "Ä"]))
    put: Put = Put(topic, 0, [(0, b"body", b"")], bytes(8), 0)
    put.offset = draw(st.integers(0, 1 << 40))
    put.end = put.offset + draw(st.integers(100, 1 << 20))
    put.record_offsets = draw(st.sampled_from([[put.offset], (put.offset, put.offset + 50)]))
    put.status = draw(st.sampled_from([PutStatus.PUT_OK] * 6 + list(PutStatus)))
    return put


class CountingTests(SynchronousTestCase):
    @given(puts=st.lists(settled(), max_size=12), first=st.integers(0, 12), before=st.booleans())
    @examples(200)
    def test_both_count_the_same(self, puts: list[Put], first: int, before: bool) -> None:
        told = []
        for twin in twins():
            topics = {"A": [1 << 62, 2, 3]} if before else {}
            counted = twin.SettledPuts(Put, PutStatus.PUT_OK).count(puts, min(first, len(puts)), topics)
            told.append((counted, topics))
        self.assertEqual(told[0], told[-1])
        (messages, size, after), topics = told[0]
        covered = puts[first:after]
        self.assertEqual(messages, sum(len(put.record_offsets) for put in covered))
        self.assertEqual(size, sum(put.end - put.offset for put in covered))
        self.assertTrue(all(put.status is PutStatus.PUT_OK for put in covered))
        if after < len(puts):
            self.assertIsNot(puts[after].status, PutStatus.PUT_OK)

    def test_the_compiled_twin_reads_no_field_of_another_kind(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        counter = compiled().SettledPuts(Put, PutStatus.PUT_OK)
        self.assertEqual(counter.count([RemotingCommand(310)], 0, {}), (0, 0, 0))
        self.assertRaises(IndexError, counter.count, [], -1, {})
        self.assertRaises(TypeError, compiled().SettledPuts, RemotingCommand, PutStatus.PUT_OK)


class LighteningTests(SynchronousTestCase):
    def test_entries_bodies_and_texts_are_let_go(self) -> None:
        for twin in twins():
            for kind in (RemotingCommand, SendCommand, SignedSendCommand):
                for put_type in (Put, OtherPut):
                    request: Any = kind(310, 1, body=b"body", ext={"a": "b"})
                    put = put_type("T", 0, [(0, b"body", b"")], bytes(8), 0, token=request)
                    twin.SettledPuts(Put, PutStatus.PUT_OK).lighten([put])
                    self.assertEqual((put.entries, request.body, request.ext), ((), b"", {}))
