"""The classic HA link: vectors cut everywhere, the captured link replayed, what no peer may send."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.haframe import (
    HEADER_SIZE,
    MAX_BODY,
    Frame,
    FrameReceiver,
    HaProtocolError,
    ReportReceiver,
    encode_frames,
    encode_heartbeat,
    encode_report,
)
from tests.support import golden
from tests.support.examples import examples


def plain(frames: list[Frame]) -> list[tuple[int, bytes]]:
    return [(offset, bytes(body)) for offset, body in frames]


class Reports(SynchronousTestCase):
    """Slave to master: bare offsets."""

    def test_B20_report_is_eight_bytes(self) -> None:
        self.assertEqual(encode_report(227), bytes.fromhex("00000000000000e3"))

    def test_B31_only_last_whole_report_counts(self) -> None:
        receiver = ReportReceiver()
        sent = b"".join(map(encode_report, (1000, 1010, 1020)))
        self.assertEqual(receiver.receive(sent + b"\x00"), 1020)
        self.assertEqual(receiver.count, 3)
        self.assertEqual(receiver.receive(encode_report(1030)[1:]), 1030)

    def test_B31_forty_nine_bytes(self) -> None:
        receiver = ReportReceiver()
        sent = b"".join(map(encode_report, range(100, 107)))[:49]
        self.assertEqual(receiver.receive(sent), 105)

    def test_B20_report_cut_at_every_byte(self) -> None:
        for cut in range(1, 8):
            receiver = ReportReceiver()
            self.assertIsNone(receiver.receive(encode_report(-5)[:cut]))
            self.assertEqual(receiver.receive(encode_report(-5)[cut:]), -5)

    def test_B30_a_long_stream_in_odd_pieces(self) -> None:
        receiver = ReportReceiver()
        stream = b"".join(map(encode_report, range(131073)))
        seen = [receiver.receive(stream[at : at + 1021]) for at in range(0, len(stream), 1021)]
        self.assertEqual(seen[-1], 131072)
        self.assertEqual(receiver.count, 131073)

    def test_empty_read_says_nothing(self) -> None:
        self.assertIsNone(ReportReceiver().receive(b""))


class Frames(SynchronousTestCase):
    """Master to slave: header and body."""

    def test_B21_header_and_body(self) -> None:
        parts = encode_frames(0xE3, b"abc", 32768)
        self.assertEqual(b"".join(parts), bytes.fromhex("00000000000000e3 00000003") + b"abc")

    def test_B22_heartbeat_is_a_header_alone(self) -> None:
        self.assertEqual(encode_heartbeat(0x1B461), bytes.fromhex("000000000001b46100000000"))
        self.assertEqual(plain(FrameReceiver().receive(encode_heartbeat(0x1B461))), [(0x1B461, b"")])

    def test_B41_body_is_cut_into_batches(self) -> None:
        body = bytes(range(256)) * 400
        parts = encode_frames(500, body, 32768)
        sizes = [len(piece) for piece in parts[1::2]]
        self.assertEqual(sizes, [32768, 32768, 32768, 102400 - 3 * 32768])
        frames = plain(FrameReceiver().receive(b"".join(parts)))
        self.assertEqual([offset for offset, _ in frames], [500, 33268, 66036, 98804])
        self.assertEqual(b"".join(piece for _, piece in frames), body)

    def test_nothing_to_send_makes_no_frame(self) -> None:
        self.assertEqual(encode_frames(7, b"", 32768), [])

    def test_B60_split_at_every_byte(self) -> None:
        frames = [(5, b"first body"), (15, b""), (15, b"x"), (16, b"the last one")]
        stream = b"".join(
            encode_heartbeat(offset)[:8] + len(body).to_bytes(4, "big") + body for offset, body in frames
        )
        for cut in range(len(stream) + 1):
            receiver = FrameReceiver()
            got = plain(receiver.receive(stream[:cut]))
            self.assertEqual(got, frames[: len(got)])
            got += plain(receiver.receive(stream[cut:]))
            self.assertEqual(got, frames, cut)
            self.assertEqual(receiver.buffered, 0)

    def test_B60_several_frames_and_a_part(self) -> None:
        receiver = FrameReceiver()
        stream = b"".join(b"".join(encode_frames(10 * n, b"0123456789", 100)) for n in range(4))
        got = receiver.receive(stream[:-7])
        self.assertEqual([frame.offset for frame in got], [0, 10, 20])
        self.assertEqual((receiver.buffered, receiver.pending_header), (HEADER_SIZE + 3, (30, 10)))
        self.assertEqual(plain(receiver.receive(stream[-7:])), [(30, b"0123456789")])
        self.assertIsNone(receiver.pending_header)

    def test_B61_header_is_seen_before_its_body(self) -> None:
        receiver = FrameReceiver()
        self.assertEqual(receiver.receive(bytes(encode_frames(99, b"body", 10)[0])), [])
        self.assertEqual(receiver.pending_header, (99, 4))

    def test_body_of_one_read_is_not_copied(self) -> None:
        read = b"".join(encode_frames(0, b"z" * 1000, 1000))
        (frame,) = FrameReceiver().receive(read)
        self.assertIs(frame.body.obj, read)

    def test_body_is_read_only_even_when_put_together(self) -> None:
        receiver = FrameReceiver()
        read = b"".join(encode_frames(0, b"z" * 1000, 1000))
        receiver.receive(read[:500])
        (frame,) = receiver.receive(read[500:])
        self.assertTrue(frame.body.readonly)

    def test_frames_stay_valid_when_more_arrives(self) -> None:
        receiver = FrameReceiver()
        read = b"".join(encode_frames(0, b"a" * 50, 50) + encode_frames(50, b"b" * 50, 50))
        receiver.receive(read[:30])
        first = receiver.receive(read[30:90])
        receiver.receive(read[90:])
        self.assertEqual(plain(first), [(0, b"a" * 50)])

    def test_B155_negative_size(self) -> None:
        error = self.assertRaises(HaProtocolError, FrameReceiver().receive, bytes(8) + b"\xff\xff\xff\xff")
        self.assertIn("-1 bytes", str(error))

    def test_B26_frame_above_the_limit(self) -> None:
        header = bytes(encode_frames(77, b"12345678901", 100)[0])
        error = self.assertRaises(HaProtocolError, FrameReceiver(max_body=10).receive, header)
        self.assertIn("offset 77 announces 11 bytes, allowed are 0 to 10", str(error))
        self.assertEqual(MAX_BODY + HEADER_SIZE, 4 * 1024 * 1024)
        self.assertEqual(FrameReceiver().receive(bytes(8) + MAX_BODY.to_bytes(4, "big")), [])

    def test_B132_half_a_frame_yields_nothing(self) -> None:
        frame = b"".join(encode_frames(3, b"payload", 100))
        for cut in range(len(frame)):
            self.assertEqual(FrameReceiver().receive(frame[:cut]), [])

    def test_a_big_body_in_small_reads_costs_linear_time(self) -> None:
        receiver = FrameReceiver()
        body = random.Random(1).randbytes(MAX_BODY)
        stream = b"".join(encode_frames(0, body, MAX_BODY))
        frames = [
            frame for at in range(0, len(stream), 1448) for frame in receiver.receive(stream[at : at + 1448])
        ]
        self.assertEqual(plain(frames), [(0, body)])

    @examples(50)
    @given(
        st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(max_size=60)), max_size=12),
        st.lists(st.integers(1, 40), min_size=1),
    )
    def test_B151_any_split_gives_the_same_frames(
        self, frames: list[tuple[int, bytes]], steps: list[int]
    ) -> None:
        stream = b"".join(
            encode_heartbeat(at)[:8] + len(body).to_bytes(4, "big") + body for at, body in frames
        )
        receiver = FrameReceiver()
        got: list[tuple[int, bytes]] = []
        position = 0
        while position < len(stream):
            step = steps[len(got) % len(steps)]
            got += plain(receiver.receive(stream[position : position + step]))
            position += step
        self.assertEqual(got, frames)

    @examples(50)
    @given(st.binary(max_size=200))
    def test_B155_any_bytes_give_frames_or_the_one_error(self, noise: bytes) -> None:
        try:
            FrameReceiver(max_body=64).receive(noise)
        except HaProtocolError:
            return


class GoldenLink(SynchronousTestCase):
    """The captured link of a real pair."""

    def setUp(self) -> None:
        events = golden.link_events()
        self.reports = b"".join(data for direction, data in events if direction == "slave>master")
        self.frames = b"".join(data for direction, data in events if direction == "master>slave")
        self.log = {
            int(path.name): path.read_bytes() for path in golden.log_files() if "master" in path.parts
        }

    def test_every_byte_of_the_link_is_encoded_again(self) -> None:
        frames = FrameReceiver().receive(self.frames)
        again = [
            part
            for offset, body in frames
            for part in encode_frames(offset, body, 32768) or [encode_heartbeat(offset)]
        ]
        self.assertEqual(b"".join(again), self.frames)
        offsets = [int.from_bytes(self.reports[at : at + 8], "big") for at in range(0, len(self.reports), 8)]
        self.assertEqual(b"".join(map(encode_report, offsets)), self.reports)

    def test_B88_bodies_are_the_master_log(self) -> None:
        position = 0
        for offset, body in FrameReceiver().receive(self.frames):
            self.assertEqual(offset, position)
            start = offset - offset % 65536
            self.assertLessEqual(offset + len(body), start + 65536)
            self.assertEqual(bytes(body), self.log[start][offset - start :][: len(body)])
            position += len(body)
        self.assertEqual(ReportReceiver().receive(self.reports), position)

    def test_B60_replayed_byte_by_byte(self) -> None:
        whole = plain(FrameReceiver().receive(self.frames))
        receiver = FrameReceiver()
        single: list[tuple[int, bytes]] = []
        for at in range(len(self.frames)):
            single += plain(receiver.receive(self.frames[at : at + 1]))
        self.assertEqual(single, whole)

    def test_B60_replayed_in_two_parts_split_at_every_byte_of_the_first_frames(self) -> None:
        stream = self.frames[:1200]
        whole = plain(FrameReceiver().receive(stream))
        for cut in range(len(stream)):
            receiver = FrameReceiver()
            self.assertEqual(
                plain(receiver.receive(stream[:cut])) + plain(receiver.receive(stream[cut:])), whole
            )

    def test_B31_reports_split_at_every_byte(self) -> None:
        last = int.from_bytes(self.reports[-8:], "big")
        for cut in range(len(self.reports) + 1):
            receiver = ReportReceiver()
            first = receiver.receive(self.reports[:cut])
            self.assertIn(last, (first, receiver.receive(self.reports[cut:])))
            self.assertEqual(receiver.count, len(self.reports) // 8)
