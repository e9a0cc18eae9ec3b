"""Does a slave's log go on as its master's does? The end of the one, sent again by the other, says so.

Offsets that fit don't make two logs one: a master that has lost its tail with the power, and has written on, holds
other bytes at the same places, and nothing in the frames would show it. So a slave doesn't begin at its log's
end but at the last record that it has, whole or torn, and compares what comes with what it holds. That record
names its place, its time and its queue offset: two that are the same byte for byte were written once. Before
the comparison has reached the log's end nothing is acknowledged beyond its start, and nothing is stored.

Rejected: asking the master for that record by a request. It may not answer, may answer for a log that has
grown since, and has no way to show half a record; and if it can't be asked, there's a slave that can't join,
or one that joins unproved. Any master sends its log from any byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from hatwisted.ha.errors import FrameMismatch
from hatwisted.store.interfaces import Buffer, IReplicatedLog


class Overlap:
    """What is compared on one link: the log's bytes from a first report up to `end`."""

    __slots__ = ("_log", "end")

    def __init__(self, log: IReplicatedLog, end: int) -> None:
        self._log = log
        self.end = end

    def strip(self, start: int, bodies: Sequence[Buffer]) -> tuple[int, list[Buffer]]:
        """The part of what was sent for `start` that we don't have yet, and where it begins. Raises FrameMismatch
        if the rest isn't what we have."""
        fresh: list[Buffer] = []
        at = start
        for body in bodies:
            ours = min(len(body), max(0, self.end - at))
            if ours:
                self._compare(at, memoryview(body)[:ours])
            if ours < len(body):
                fresh.append(memoryview(body)[ours:] if ours else body)
            at += len(body)
        return max(start, min(self.end, at)), fresh

    def _compare(self, at: int, sent: memoryview) -> None:
        """Frames don't cross the ends of log files, so one read gives all that a body is compared with."""
        held = self._log.read(at, len(sent))
        if held == sent:
            return
        first = next(
            (i for i, (ours, theirs) in enumerate(zip(held, sent, strict=False)) if ours != theirs), 0
        )
        raise FrameMismatch(
            at,
            len(sent),
            f"our log and the master's differ from offset {at + first} on, ours ends at {self.end}: "
            "the two have diverged; see 'hatwisted log compare'",
        )
