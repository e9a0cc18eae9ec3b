"""What becomes of puts besides their answers: both twins count and let go alike."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.kernel.heldputs import HeldPuts
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.wire.codes import FLAG_ONEWAY
from hatwisted.wire.layout import SYS_BORN_HOST_V6
from hatwisted.wire.remoting import RemotingCommand, SendCommand, SignedSendCommand
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, twins

HOST = bytes(8)


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
    @examples(100)
    def test_both_count_the_same(self, puts: list[Put], first: int, before: bool) -> None:
        told = []
        for twin in twins():
            topics = {"A": array("q", (1 << 62, 2, 3))} if before else {}
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
        put: Put = Put("T", 0, (), bytes(8), 0, offset=0, end=9, record_offsets=[0], status=PutStatus.PUT_OK)
        for counts in ([1, 2, 3], array("q", (1, 2)), array("i", (1, 2, 3))):
            self.assertRaises(TypeError, counter.count, [put], 0, {"T": counts})
        self.assertRaises(TypeError, compiled().SettledPuts, RemotingCommand, PutStatus.PUT_OK)


def waiting(
    kind: type[RemotingCommand], offset: int, ids: list[int], put_type: type[Put] = Put, **changes: Any
) -> Put:
    """A stored send that nothing is known of yet. changes: fields of its request."""
    request = kind(310, **{"body": b"body", "ext": {"a": "b"}} | changes)
    put = put_type("T", 0, [(0, b"body", b"")], HOST, 7, token=request, answer_queue_id=3)
    put.offset, put.end, put.record_offsets, put.queue_offset = offset, offset + 100, ids, offset // 100
    return put


def told(put: Put) -> tuple[Any, ...]:
    """What answers and log lines say of it."""
    request = put.token
    return (
        *(
            put.topic,
            put.offset,
            put.end,
            put.record_offsets,
            put.queue_offset,
            put.answer_queue_id,
            put.status,
        ),
        *(
            put.born_host,
            put.sys_flag & SYS_BORN_HOST_V6,
            request.code,
            request.opaque,
            request.flag,
            request.binary,
        ),
    )


@st.composite
def reads(draw: st.DrawFn) -> list[Put]:
    """The sends of a read, some of them unusual."""
    puts, at = [], draw(st.integers(0, 1 << 40))
    host = draw(st.sampled_from([bytes(8), bytes(20)]))
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from([SendCommand] * 3 + [SignedSendCommand, RemotingCommand]))
        ids = draw(st.sampled_from([[at], [at], [at, at + 50], (at,)]))
        flag = draw(st.sampled_from([0, 0, 0, FLAG_ONEWAY]))
        binary = draw(st.sampled_from([False] * 12 + [True]))
        opaque = draw(st.sampled_from([number] * 12 + [-1, 1 << 63]))
        kept = draw(st.sampled_from([Put] * 12 + [OtherPut]))
        put = waiting(kind, at, list(ids), kept, opaque=opaque, flag=flag, binary=binary)
        put.topic, put.born_host = draw(st.sampled_from(["A", "B"])), host
        put.sys_flag = SYS_BORN_HOST_V6 if len(host) == 20 else 0
        if isinstance(ids, tuple):
            put.record_offsets = ids
        puts.append(put)
        at += draw(st.sampled_from([100, 100, 1000]))
    return puts


def usual(put: Put) -> bool:
    """Do both answer it? What the compiled twin isn't sure of, it leaves to its caller."""
    return type(put) is Put and type(put.record_offsets) is list and -(1 << 63) <= put.token.opaque < 1 << 63


class HoldingTests(SynchronousTestCase):
    def test_entries_bodies_and_texts_are_let_go(self) -> None:
        for twin in twins():
            for kind in (RemotingCommand, SendCommand, SignedSendCommand):
                for put_type in (Put, OtherPut):
                    put = waiting(kind, 0, [0], put_type)
                    (held,) = twin.SettledPuts(Put, PutStatus.PUT_OK).hold([put])
                    self.assertEqual((held.entries, held.token.body, held.token.ext), ((), b"", {}))

    @given(reads(), st.data())
    @examples(100)
    def test_both_hold_the_same(self, puts: list[Put], data: st.DataObject) -> None:
        expected = [told(put) for put in puts]
        ends = [put.end for put in puts]
        cut = data.draw(st.integers(0, len(puts)))
        status = data.draw(st.sampled_from([PutStatus.PUT_OK] * 3 + [PutStatus.FLUSH_SLAVE_TIMEOUT]))
        outcomes = []
        for twin in twins():
            counter = twin.SettledPuts(Put, PutStatus.PUT_OK)
            answers = twin.SendAnswers("7F00000100002A9F", Put, PutStatus.PUT_OK)
            held = counter.hold(list(puts))
            self.assertEqual([told(put) for put in held], expected)
            self.assertEqual([held.end(index) for index in range(-1, len(puts))], [ends[-1], *ends])
            for offset in (0, *ends, ends[-1] + 1):
                self.assertEqual(held.covered(offset), sum(end <= offset for end in ends))
            part, rest = held[:cut], held[cut:]
            self.assertEqual((len(part), len(rest)), (cut, len(puts) - cut))
            part.settle(status)
            self.assertEqual(
                [told(put) for put in part], [(*each[:6], status, *each[7:]) for each in expected[:cut]]
            )
            self.assertEqual([put.status for put in rest], [None] * (len(puts) - cut))
            topics: dict[str, list[int]] = {}
            counted = counter.count(part, 0, topics)
            if all(map(usual, puts)):
                outcomes.append((counted, topics, answers.encode(part, 0)))
            for put in puts:
                put.status = None
        self.assertEqual(outcomes[1:], outcomes[:-1])

    def test_the_compiled_twin_reads_nothing_beyond_what_it_holds(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)
        counter = compiled().SettledPuts(Put, PutStatus.PUT_OK)
        held = counter.hold([waiting(SendCommand, 100 * number, [100 * number]) for number in range(3)])
        self.assertNotIsInstance(held, HeldPuts)
        for index in (-4, 3, 1 << 40):
            self.assertRaises(IndexError, held.end, index)
            self.assertRaises(IndexError, held.__getitem__, index)
        self.assertEqual([len(held[1:2]), len(held[5:]), len(held[2:1])], [1, 0, 0])
        self.assertRaises(ValueError, held.__getitem__, slice(0, 3, 2))
        self.assertRaises(IndexError, counter.count, held, -1, {})
        held.settle(PutStatus.PUT_OK)
        self.assertEqual(counter.count(held, 3, {}), (0, 0, 3))
        self.assertEqual(counter.count(held[3:], 0, {}), (0, 0, 0))
        answers = compiled().SendAnswers("7F00000100002A9F", Put, PutStatus.PUT_OK)
        self.assertRaises(IndexError, answers.encode, held, -1)
        self.assertEqual(answers.encode(held, 3), (b"", 3))
        self.assertEqual(answers.encode(held, 9), (b"", 9))
