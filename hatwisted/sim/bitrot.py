"""Bytes that change at rest: a bit of one broker's log is flipped while the group is well, and the slave, which
compares its log with its master's in the background, has to tell where within a round. An operator then has it
repaired; what can't be repaired so (a master's bytes, and where both copies are valid records) is put right on the
disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from twisted.python.failure import Failure

from hatwisted.broker.node.logaudit import ROUND_PAUSE
from hatwisted.logcodec.logdrift import Rotten
from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.group import Group
from hatwisted.sim.history import Violation
from hatwisted.sim.messageload import TIMEOUT, not_answered
from hatwisted.sim.setup import ADDRESSES, BROKER_PORT
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.logrange import LogRange, span_fields
from hatwisted.wire.remoting import RemotingCommand

ROUND = 2 * ROUND_PAUSE + 10.0
"""Seconds until a flipped bit is told: the rest of a round that has passed it, and a whole one; logs are small."""


class Flip(NamedTuple):
    """name: of the machine; offset: of the byte in its log; path, bit: of the file."""

    name: str
    offset: int
    path: str
    bit: int


def flip_bit(group: Group, random: Random) -> Flip | None:
    """Change a bit of what both logs hold; None if they hold nothing in common.

    - group: linked
    - random: draws which bit, and on which side
    """
    ranges = [group.store(name).log_range() for name in HOSTS]
    begin, end = max(first for first, _ in ranges), min(last for _, last in ranges)
    if begin >= end:
        return None
    name, offset = random.choice(HOSTS), random.randrange(begin, end)
    at = offset % group.setup.log_file_size
    path, bit = f"/store/commitlog/{offset - at:020d}", 8 * at + random.randrange(8)
    flip = Flip(name, offset, path, bit)
    group.machines[name].disk.flip_bit(path, bit)
    group.trace.note(f"bit flipped at {offset} of {name}")
    return flip


class BitRot:
    """One flipped bit, until it's repaired.

    - group: linked
    - client: an operator's
    - flip: the bit
    - told: ranges in which the slave says that it differs
    """

    def __init__(self, group: Group, client: RemotingClient, flip: Flip, told: Sequence[range]) -> None:
        self.over = False
        """Is everything as it was?"""
        self._group = group
        self._client = client
        self._flip = flip
        self._told = told
        self._asked = self._asked_before = False
        self._limit = group.clock.seconds() + ROUND

    def look(self) -> Violation | None:
        """Go on, several times a round; what is wrong."""
        flip, late = self._flip, self._group.clock.seconds() >= self._limit
        told = next((each for each in self._told if flip.offset in each), None)
        if told is None:
            what = f"a bit at {flip.offset} of {flip.name}'s log has changed, and nobody says so"
            return Violation("rot", what) if late else None
        if late and not self.over:
            return Violation("rot", f"the slave doesn't answer whether it has repaired {told}")
        if not self._asked:
            self._ask(told)
        return self._problem()

    def _ask(self, told: range) -> None:
        if not self._asked_before:
            self._limit = self._group.clock.seconds() + ROUND
        self._asked = self._asked_before = True
        fields = span_fields(LogRange(told.start, told.stop))
        command = RemotingCommand(RequestCode.REPAIR_LOG, ext=fields)
        call = self._client.call(f"{ADDRESSES[self._group.slave]}:{BROKER_PORT}", command, TIMEOUT)
        call.addCallbacks(self._answered, self._not_answered)

    def _not_answered(self, failure: Failure) -> None:
        """The connection may be one from before the slave lost its power: once more."""
        not_answered(failure)
        self._asked = False

    def _answered(self, answer: RemotingCommand) -> None:
        if answer.code != ResponseCode.SUCCESS:
            self._asked = False  # not linked at the moment: once more
            return
        rotten = {record["rotten"] for record in fastjson.loads(answer.body)["records"]}
        if rotten != {Rotten.SLAVE.value}:
            self._group.machines[self._flip.name].disk.flip_bit(self._flip.path, self._flip.bit)
        self.over = True

    def _problem(self) -> Violation | None:
        if not self.over:
            return None
        span = self._flip.offset, self._flip.offset + 1
        here, there = (self._group.store(name).log_bytes(*span) for name in HOSTS)
        if here == there:
            return None
        return Violation("rot", f"the slave says that it has repaired {self._flip.offset}, and hasn't")
