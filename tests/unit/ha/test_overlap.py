"""A slave's log is proved to be its master's before it's acknowledged: B140."""

from __future__ import annotations

from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.wire.haframe import HaAck
from hatwisted.wire.hostport import HostPort
from tests.support.memorylog import MemoryLog
from tests.support.pattern import pattern
from tests.unit.ha.rig import SlaveRig

HOST = HostPort(b"\x7f\0\0\1", 10911).pack()
FILE_SIZE = 4096
BYTES = pattern(1000)
FRESH = pattern(300, seed=8)


def held(last_record: int = 900) -> MemoryLog:
    """1000 bytes, of which the last record begins there."""
    log = MemoryLog(1 << 20)
    log.append(BYTES)
    log.flushed_offset = log.max_offset
    log.last_record = last_record
    return log


class ProofTests(SynchronousTestCase):
    def test_B140_it_begins_at_its_last_record_and_acknowledges_all_once_that_has_come_again(self) -> None:
        rig = SlaveRig(held())
        self.assertEqual(rig.reports(), [900])
        rig.send(900, BYTES[900:])
        self.assertEqual((rig.reports(), rig.log.appends), ([1000], []))
        rig.send(1000, FRESH)
        self.assertEqual((rig.reports(), bytes(rig.log)), ([1300], BYTES + FRESH))

    def test_B140_however_it_is_cut(self) -> None:
        for cut in range(1, 400):
            with self.subTest(cut=cut):
                rig = SlaveRig(held())
                sent = BYTES[900:] + FRESH
                rig.send(900, sent[:cut])
                self.assertEqual(
                    rig.reports(), [900] if cut < 100 else [900, 900 + cut][-2:] if cut > 100 else [900, 1000]
                )
                rig.send(900 + cut, sent[cut:], batch=37)
                self.assertEqual((rig.reports()[-1], bytes(rig.log)), (1300, BYTES + FRESH))

    def test_B140_one_byte_that_differs_ends_the_link_and_nothing_is_acknowledged(self) -> None:
        for at in range(900, 1000):
            with self.subTest(at=at):
                rig = SlaveRig(held())
                spoilt = bytearray(BYTES[900:] + FRESH)
                spoilt[at - 900] ^= 1
                rig.send(900, bytes(spoilt), batch=64)
                self.assertEqual(
                    (rig.state, rig.reports(), rig.wire.aborted), ("offset mismatch", [900], True)
                )
                self.assertEqual(bytes(rig.log), BYTES)
                self.assertIn(f"differ from offset {at} on", rig.service.status().problem)

    def test_B140_a_log_that_has_diverged_is_not_dialled_again_at_once(self) -> None:
        rig = SlaveRig(held())
        rig.send(900, bytes(50))
        rig.lose()
        rig.seconds(14)
        self.assertEqual(len(rig.dialled), 1)

    def test_B140_a_master_whose_log_is_shorter_gets_no_acknowledgement(self) -> None:
        rig = SlaveRig(held())
        rig.send(900, BYTES[900:950])
        rig.header(950)
        rig.seconds(11)
        self.assertEqual(set(rig.reports()), {900})
        told = SlaveRig(held(), master_range=lambda: succeed((0, 950)))
        self.assertEqual(told.state, "master lacks offset")
        self.assertIn(
            "our log ends at 1000, the master's at 950: we hold 50 bytes", told.service.status().problem
        )

    def test_B140_and_if_it_grows_other_bytes_than_ours_it_is_found_out(self) -> None:
        rig = SlaveRig(held())
        rig.send(900, BYTES[900:950])
        rig.send(950, FRESH)
        self.assertEqual((rig.state, rig.reports()), ("offset mismatch", [900]))

    def test_a_log_of_one_record_begins_at_byte_1(self) -> None:
        rig = SlaveRig(held(last_record=0))
        self.assertEqual(rig.reports(), [1])
        rig.send(1, BYTES[1:] + FRESH)
        self.assertEqual((rig.reports(), bytes(rig.log)), ([1300], BYTES + FRESH))

    def test_a_durable_acknowledgement_is_durable_here_too(self) -> None:
        log = held()
        log.flushed_offset, log.hold_flushes = 400, True
        rig = SlaveRig(log, ack=HaAck.DURABLE)
        self.assertEqual(rig.reports(), [])
        log.flushed_offset = 1000
        log.flushes.pop().callback(1000)
        self.assertEqual(rig.reports(), [900])
        rig.send(900, BYTES[900:])
        while log.flushes:
            log.flushes.pop().callback(1000)
        self.assertEqual(rig.reports(), [1000])
