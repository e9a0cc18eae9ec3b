"""Frames of the HA link: the compiled twin takes what the receiver and the slave's check would, and no more."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.ha import framecheck
from hatwisted.ha.errors import FrameMismatch
from hatwisted.ha.firstsync import JoinPlan
from hatwisted.ha.framecheck import FrameCheck
from hatwisted.wire.haframe import HEADER_SIZE, Frame
from tests.support.examples import examples
from tests.support.kerneltwins import NOT_BUILT, compiled, frames_of_reads

FILE = 1000
bodies = st.binary(max_size=40)


def framed(offset: int, body: bytes) -> bytes:
    return offset.to_bytes(8, "big", signed=True) + len(body).to_bytes(4, "big") + body


class FrameTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)

    @examples(150)
    @given(
        st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), bodies), max_size=12),
        st.randoms(use_true_random=False),
    )
    def test_any_reads_give_the_receiver_s_frames(
        self, frames: list[tuple[int, bytes]], chance: random.Random
    ) -> None:
        data = bytearray(b"".join(framed(*frame) for frame in frames))
        if data and chance.random() < 0.4:
            data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255))
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(6)))
        reads = [bytes(data[start:end]) for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        self.assertEqual(frames_of_reads(reads, compiled().take_frames), frames_of_reads(reads))

    def test_frames_are_views_of_the_read(self) -> None:
        read = framed(5, b"body") + framed(9, b"") + framed(9, b"x")[:-1]
        found: list[Frame] = []
        place = compiled().take_frames(memoryview(read), 0, 100, found)
        self.assertEqual(place, len(read) - HEADER_SIZE)
        self.assertEqual([type(each) for each in found], [Frame, Frame])
        self.assertIs(found[0].body.obj, read)
        self.assertEqual(compiled().take_frames(memoryview(read), 1 << 20, 100, found), 1 << 20)
        self.assertRaises(ValueError, compiled().take_frames, memoryview(read), -1, 100, found)

    def test_a_body_beyond_the_limit_is_left_alone(self) -> None:
        for size, most, taken in ((10, 10, 1), (11, 10, 0)):
            found: list[Frame] = []
            read = framed(0, bytes(size))
            self.assertEqual(compiled().take_frames(memoryview(read), 0, most, found), taken * len(read))


class FittingTests(SynchronousTestCase):
    def setUp(self) -> None:
        if NOT_BUILT:
            self.skipTest(NOT_BUILT)

    def checked(self, expected: int | None, frames: list[Frame], fitting: Any) -> Any:
        """What the check makes of the frames, and of a mismatch its text."""
        check = FrameCheck(JoinPlan(0, expected), FILE)
        self.patch(framecheck, "fitting_frames", fitting)
        start, found, mismatch = check.take(frames)
        self.assertIsInstance(mismatch, FrameMismatch | None)
        return start, [bytes(body) for body in found], str(mismatch), check.accepted, check.expected

    @examples(200)
    @given(
        st.sampled_from((0, 7, FILE - 30, FILE - 1, FILE, 5 * FILE - 40, None, (1 << 63) - 20)),
        st.lists(st.tuples(st.sampled_from((0, 0, 0, 0, 0, 1, -1, FILE)), bodies), max_size=12),
    )
    def test_the_check_says_the_same(self, expected: int | None, steps: list[tuple[int, bytes]]) -> None:
        at, frames = expected or 0, []
        for jump, body in steps:
            if not -(1 << 63) <= at + jump < 1 << 63:
                break
            frames.append(Frame(at + jump, memoryview(body)))
            at += len(body)
        told = self.checked(expected, frames, compiled().fitting_frames)
        self.assertEqual(told, self.checked(expected, frames, None))

    def test_a_file_has_room(self) -> None:
        self.assertRaises(ValueError, compiled().fitting_frames, [], 0, 0, [])


class LastOffsetTests(SynchronousTestCase):
    """On the twin that the process has."""

    def test_a_frame_that_ends_where_no_report_could_say_is_refused(self) -> None:
        last = (1 << 63) - 1
        check = FrameCheck(JoinPlan(0, None), 1 << 20)
        start = last // (1 << 20) * (1 << 20)
        fits = Frame(start, memoryview(bytes(last - start)))
        self.assertEqual(check.take([fits]), (start, [fits.body], None))
        for size in (1, 0):
            _, bodies, mismatch = check.take([Frame(last, memoryview(bytes(size)))])
            self.assertEqual((bodies, mismatch is None, check.expected), ([], size == 0, last))
