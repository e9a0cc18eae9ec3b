"""The table of docs/guarantees.md, cell by cell: who is left with a message after one failure, by answer and mode.

A group of two in the simulation is sent to, with the trouble that gives the answer, and one thing breaks. The
simulation compares what was promised with the stores; here the promises are compared with the table. There are no
processes, but it takes too long for the unit layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.faultplan import HOSTS, Fault
from hatwisted.sim.setup import Setup
from hatwisted.sim.simulation import Simulation
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.haframe import HaFirstSync

TEXT = Path(__file__).parents[2] / "docs" / "guarantees.md"
HEADER = "| answer | flush | role | `haAck` |"
MASTER, SLAVE = HOSTS
BREAKS_AT = {"SEND_OK": 1.5, "SLAVE_NOT_AVAILABLE": 2.0}  # seconds into the run
AFTER_A_TIMEOUT = 6.5  # the same for the others
KEPT = {(MASTER,): "master", (SLAVE,): "slave", (MASTER, SLAVE): "both", (): "neither"}

BREAKS = (("kill", MASTER), ("power", MASTER), ("power", SLAVE), ("power", "all"))
"""Kinds of faults and machines, as the table's columns."""

TROUBLE: dict[str, tuple[ResponseCode, Sequence[Fault]]] = {
    "SEND_OK": (ResponseCode.SUCCESS, ()),
    "FLUSH_DISK_TIMEOUT": (
        ResponseCode.FLUSH_DISK_TIMEOUT,
        [Fault(at=0.5, kind="slowdisk", host=MASTER, amount=7.0, lasts=60.0)],
    ),
    "FLUSH_SLAVE_TIMEOUT": (
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        [Fault(at=0.5, kind="pause", host=SLAVE, lasts=60.0)],
    ),
    "SLAVE_NOT_AVAILABLE": (
        ResponseCode.SLAVE_NOT_AVAILABLE,
        [Fault(at=0.5, kind="kill", host=SLAVE, lasts=60.0)],
    ),
}


class Row(NamedTuple):
    answer: str
    flush: str
    role: str
    ack: str
    cells: list[str]


def rows() -> list[Row]:
    lines = iter(TEXT.read_text().splitlines())
    found = []
    for line in lines:
        if line.startswith(HEADER):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    break
                answer, flush, role, ack, *cells = (cell.strip(" `") for cell in row.strip("|").split("|"))
                found.append(Row(answer, flush, role, ack, cells))
    return found


def setup(row: Row, faults: Sequence[Fault]) -> Setup:
    return Setup(
        seed=1,
        seconds=faults[-1].at + 0.5,
        sync_master=row.role == "SYNC_MASTER",
        sync_flush=row.flush == "SYNC_FLUSH",
        durable_acks=row.ack == "durable",
        first_sync=HaFirstSync.MIN_OFFSET,
        log_file_size=1 << 18,
        queue_file_entries=100,
        index=False,
        pause=0.15,
        sizes=(20, 500),
        delayed=0.0,
        transactions=False,
        tables=False,
        audited=False,
        copies=None,
        drift=0.0,
        tight=False,
        consumers=False,
        faults=tuple(faults),
    )


class GuaranteeTests(SynchronousTestCase):
    def kept(self, row: Row, breaks: tuple[str, str]) -> str:
        """Who promises, and has, every message that had got the row's answer."""
        code, trouble = TROUBLE[row.answer]
        kind, host = breaks
        broken = Fault(at=BREAKS_AT.get(row.answer, AFTER_A_TIMEOUT), kind=kind, host=host, lasts=1.0)
        simulation = Simulation(setup(row, (*trouble, broken)))
        looked = simulation.operator.check_store
        starts: list[str] = []
        kept: list[set[str]] = []

        def look(name: str) -> None:
            looked(name)
            starts.append(name)
            answered = [sent.on for sent in simulation.promises.sent.values() if sent.code == code]
            if len(starts) > len(HOSTS) and answered:
                kept.append(set(HOSTS).intersection(*answered))

        self.patch(simulation.operator, "check_store", look)
        outcome = simulation.run()
        self.assertEqual(outcome.violations, [])
        self.assertIn(kind, outcome.struck)
        struck = HOSTS if host == "all" else (host,)
        self.assertEqual(starts[len(HOSTS) :][: len(struck)], list(struck))
        return KEPT[tuple(sorted(kept[len(struck) - 1]))]

    def test_each_cell_of_the_table(self) -> None:
        self.assertEqual({row.answer for row in rows()}, set(TROUBLE))
        for row in rows():
            found = [self.kept(row, breaks) for breaks in BREAKS]
            self.assertEqual(found, row.cells, row)
