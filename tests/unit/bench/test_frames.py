"""The load generator's requests, read back by hatwisted's codecs: two independent views of one protocol."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from bench.frames import FrameRing, Load
from bench.loadgen import is_flat, whole_frames
from hatwisted.wire.batch import decode_batch
from hatwisted.wire.properties import decode_properties
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver
from hatwisted.wire.requestheader import parse_send_v2
from hatwisted.wire.signing import SecretKey, signed_bytes


class FrameRingTests(SynchronousTestCase):
    def requests(self, ring: FrameRing) -> list[RemotingCommand]:
        return RemotingReceiver().receive(bytes(ring.buffer))

    def test_a_ring_is_whole_requests_with_a_topic_and_all_queues(self) -> None:
        ring = FrameRing(Load("h", 1, topic="T", size=10), 0)
        headers = [parse_send_v2(each.ext) for each in self.requests(ring)]
        self.assertEqual(len(headers), ring.frames)
        self.assertEqual({header.topic for header in headers}, {"T"})
        self.assertEqual({header.queue_id for header in headers}, {0, 1, 2, 3})

    def test_opaques_and_message_ids_stay_unique_when_a_ring_is_renumbered(self) -> None:
        ring = FrameRing(Load("h", 1, size=10), 0)
        seen = self.requests(ring)
        ring.renumber(ring.frames)
        seen += self.requests(ring)
        ids = [decode_properties(parse_send_v2(each.ext).properties.encode())["UNIQ_KEY"] for each in seen]
        self.assertEqual(len({each.opaque for each in seen}), 2 * ring.frames)
        self.assertEqual(len(set(ids)), 2 * ring.frames)
        self.assertEqual({len(each) for each in ids}, {32})

    def test_batches_hold_so_many_messages_with_ids_of_their_own(self) -> None:
        ring = FrameRing(Load("h", 1, size=100, batch=5), 3)
        first, second = self.requests(ring)[:2]
        messages = decode_batch(first.body) + decode_batch(second.body)
        self.assertEqual([len(body) for _, body, _ in messages], [100] * 10)
        self.assertEqual(len({properties for _, _, properties in messages}), 10)

    def test_signed_frames_pass_a_broker_s_check_in_each_round(self) -> None:
        ring = FrameRing(Load("h", 1, size=100, account="producer:secret-of-producer"), 0)
        ids = []
        for number in (0, ring.frames):
            ring.renumber(number)
            for request in self.requests(ring):
                signature = request.ext["Signature"]
                content = signed_bytes(request.ext, request.body)
                self.assertEqual(request.ext["AccessKey"], "producer")
                self.assertTrue(SecretKey("secret-of-producer").is_signature(content, signature))
                ids.append(parse_send_v2(request.ext).properties)
        self.assertEqual(len(set(ids)), ring.frames)

    def test_ids_that_come_again_are_those_of_the_first_round(self) -> None:
        ring = FrameRing(Load("h", 1, size=10, same_ids=1), 0)
        first = [parse_send_v2(each.ext).properties for each in self.requests(ring)]
        ring.renumber(ring.frames)
        self.assertEqual([parse_send_v2(each.ext).properties for each in self.requests(ring)], first)
        self.assertEqual(len(set(first)), ring.frames)


class ScanningTests(SynchronousTestCase):
    def test_frames_are_counted_up_to_the_last_whole_one_at_every_cut(self) -> None:
        frames = [struct.pack(">i", len(body)) + body for body in (b"abcd", b"", b"0123456789")]
        stream = b"".join(frames)
        ends = [sum(map(len, frames[:count])) for count in range(4)]
        for cut in range(len(stream) + 1):
            expected = max(count for count in range(4) if ends[count] <= cut)
            self.assertEqual(whole_frames(stream[:cut]), (ends[expected], expected))

    def test_a_rate_is_flat_when_two_spans_are_alike(self) -> None:
        self.assertFalse(is_flat([100.0] * 9))
        self.assertTrue(is_flat([1.0] * 3 + [100.0] * 10))
        self.assertFalse(is_flat([90.0] * 5 + [100.0] * 5))
