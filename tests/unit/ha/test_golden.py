"""The captured link of a RocketMQ 4.9.7 pair, played against our slave and compared with our master."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.haframe import Frame, FrameReceiver
from tests.support.golden import link_events, log_bytes
from tests.support.memorylog import MemoryLog
from tests.unit.ha.rig import MasterRig, SlaveRig

FILE_SIZE = 65536


def pieces(direction: str) -> list[bytes]:
    """What one side sent, in the pieces that were captured."""
    return [data for sender, data in link_events() if sender == direction]


def frames() -> list[Frame]:
    """The master's frames, heartbeats included."""
    receiver = FrameReceiver()
    return [frame for piece in pieces("master>slave") for frame in receiver.receive(piece)]


class GoldenLinkTests(SynchronousTestCase):
    def test_B88_our_slave_ends_with_the_real_slaves_log(self) -> None:
        rig = SlaveRig(MemoryLog(FILE_SIZE))
        for piece in pieces("master>slave"):
            rig.link.dataReceived(piece)
        self.assertFalse(rig.wire.aborted)
        written = rig.log.max_offset
        self.assertEqual(bytes(rig.log), log_bytes("slave")[:written])
        self.assertEqual(log_bytes("slave")[written:].strip(b"\0"), b"")

    def test_B55_our_slave_reports_what_the_real_one_did(self) -> None:
        rig = SlaveRig(MemoryLog(FILE_SIZE))
        for frame in frames():
            rig.send(frame.offset, bytes(frame.body)) if frame.body else rig.header(frame.offset)
        captured = [offset for (offset,) in struct.iter_unpack(">q", b"".join(pieces("slave>master")))]
        rising = [offset for at, offset in enumerate(captured) if offset not in captured[:at]]
        ours = rig.reports()
        self.assertEqual(ours[0], captured[0])
        self.assertEqual(ours[-1], captured[-1])
        self.assertTrue(set(rising) <= set(ours), "a real report that ours never made")

    def test_our_master_sends_what_the_real_one_did(self) -> None:
        rig = MasterRig(MemoryLog(FILE_SIZE))
        slave = rig.slave(0)
        expected = []
        for frame in frames():
            if frame.body:
                expected.append((frame.offset, bytes(frame.body)))
                rig.log.append(bytes(frame.body))
        self.assertEqual(slave.frames(), expected)
        self.assertEqual(bytes(rig.log), log_bytes("master")[: rig.log.max_offset])

    def test_our_master_catches_a_slave_up_to_the_real_slaves_log(self) -> None:
        log = MemoryLog(FILE_SIZE)
        end = len(log_bytes("master").rstrip(b"\0"))
        log.append(log_bytes("master")[:end])
        rig = MasterRig(log)
        # Report 1 instead of 0: 0 would mean the last file only.
        self.assertEqual(rig.slave(1).body(), log_bytes("slave")[1:end])
