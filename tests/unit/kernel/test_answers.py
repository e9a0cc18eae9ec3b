"""Answers to stored sends: the same bytes from both twins, and none for what isn't just stored."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.kernel import message_ids
from hatwisted.kernel.limits import ANSWER_BYTES
from hatwisted.store.log.put import Put, PutStatus
from hatwisted.wire.codes import FLAG_ONEWAY
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingReceiver,
    SendCommand,
    SignedSendCommand,
    encode_command,
    encode_send_response,
    send_response_fields,
)
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, twins

HOST = "7F00000100002A9F"
BORN = bytes(8)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)


def stored(request: RemotingCommand, offsets: list[int], queue_id: int = 1, queue_offset: int = 2) -> Put:
    put: Put = Put("T", 0, (), BORN, 0, token=request, answer_queue_id=queue_id)
    put.record_offsets, put.offset, put.queue_offset = offsets, offsets[0], queue_offset
    put.status = PutStatus.PUT_OK
    return put


@st.composite
def settled(draw: st.DrawFn) -> Put:
    kind = draw(st.sampled_from([SendCommand, SignedSendCommand, RemotingCommand]))
    flag = draw(st.sampled_from([0, 0, 0, FLAG_ONEWAY, 4]))
    request = kind(310, draw(int64), flag, binary=draw(st.sampled_from([False, False, False, True])))
    put = stored(
        request,
        draw(st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=4)),
        draw(int64),
        draw(int64),
    )
    put.status = draw(st.sampled_from([PutStatus.PUT_OK] * 5 + list(PutStatus)))
    return put


class AnswerTests(SynchronousTestCase):
    @examples(100)
    @given(st.lists(settled(), max_size=8), st.integers(0, 3))
    def test_both_twins_do_the_same(self, puts: list[Put], first: int) -> None:
        outcomes: list[Any] = [
            twin.SendAnswers(HOST, Put, PutStatus.PUT_OK).encode(puts, first) for twin in twins()
        ]
        if first <= len(puts):
            self.assertEqual(outcomes[1:], outcomes[:-1])

    def test_an_answer_is_what_the_codec_writes(self) -> None:
        put = stored(SendCommand(310, 99), [1 << 40, 7], 3, 1234567890123)
        for twin in twins():
            data, index = twin.SendAnswers(HOST, Put, PutStatus.PUT_OK).encode((put,), 0)
            self.assertEqual(index, 1)
            ids = message_ids(HOST, put)
            self.assertEqual(ids, f"{HOST}0000010000000000,{HOST}0000000000000007")
            self.assertEqual(data, encode_send_response(99, 3, 1234567890123, ids))
            (answer,) = RemotingReceiver().receive(data)
            fields = send_response_fields(3, 1234567890123, ids)
            self.assertEqual(encode_command(answer), data)
            self.assertEqual(answer.ext, fields)

    def test_a_number_that_does_not_fit_keeps_no_other_answer_back(self) -> None:
        odd = [{"opaque": 1 << 63}, {"opaque": -(1 << 63) - 1}, {"flag": 1 << 63}, {"flag": 1 << 31}]
        for twin in twins():
            for place in range(3):
                for numbers in odd:
                    requests = [SendCommand(310, number) for number in range(3)]
                    requests[place] = SendCommand(310, **numbers)
                    puts = [stored(request, [5]) for request in requests]
                    answers, whole, index = twin.SendAnswers(HOST, Put, PutStatus.PUT_OK), b"", 0
                    while index < len(puts):
                        data, index = answers.encode(puts, index)
                        whole += data
                        if index < len(puts):  # its caller's turn
                            self.assertEqual((index, puts[index].token), (place, requests[place]))
                            whole += encode_send_response(requests[place].opaque, 1, 2, f"{HOST}{5:016X}")
                            index += 1
                    expected = [
                        encode_send_response(each.opaque, 1, 2, f"{HOST}{5:016X}") for each in requests
                    ]
                    self.assertEqual(whole, b"".join(expected))

    def test_thousands_of_big_batches_take_several_goes(self) -> None:
        for twin in twins():
            puts = [stored(SendCommand(320, number), [0] * 5000) for number in range(40)]
            answers, whole, index = twin.SendAnswers(HOST, Put, PutStatus.PUT_OK), b"", 0
            largest = len(twin.SendAnswers(HOST, Put, PutStatus.PUT_OK).encode(puts[:1], 0)[0])
            while index < len(puts):
                data, after = answers.encode(puts, index)
                self.assertGreater(after, index)
                if not NOT_BUILT and twin.SendAnswers is compiled().SendAnswers:
                    self.assertLess(len(data), ANSWER_BYTES + largest)
                whole, index = whole + data, after
            got = RemotingReceiver(max_header=1 << 20).receive(whole)
            self.assertEqual([answer.opaque for answer in got], list(range(40)))
