"""What a slave lets into its log: frames that continue it, byte after byte, and nothing else.

No I/O. Every frame's offset, heartbeats' included, must be the log's end; an empty log takes the start of any
file, once. A frame that ends after our file's end comes from a master with another file size: its log can't
be copied byte by byte into ours, so it's refused too, rather than stored at a place where no record may lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from hatwisted.ha.errors import FrameMismatch
from hatwisted.ha.firstsync import JoinPlan, prove_prefix
from hatwisted.kernel import fitting_frames
from hatwisted.store.interfaces import Buffer
from hatwisted.wire.haframe import Frame

_LAST = (1 << 63) - 1
"""The last offset that a report can say."""


class FrameCheck:
    """The position of one link, from its first report on.

    file_size: bytes per log file on this side.
    """

    __slots__ = ("_file_size", "_prefix", "accepted", "expected")

    def __init__(self, plan: JoinPlan, file_size: int) -> None:
        self._file_size = file_size
        self._prefix = plan.prefix
        self.expected = plan.expected
        """Offset of the next frame; None while the log is empty and any file start will do."""
        self.accepted = False
        """Was a frame taken on this link, even if only a heartbeat?"""

    def check(self, offset: int, size: int) -> None:
        """Raise FrameMismatch if a frame with this header can't be next; its body isn't needed (B61)."""
        expected = self.expected
        if expected is None:
            if offset < 0 or offset % self._file_size:
                raise FrameMismatch(
                    offset,
                    size,
                    f"our log is empty and the master starts at offset {offset}, which is no file start with "
                    f"our mappedFileSizeCommitLog of {self._file_size}: set it to the master's value",
                )
        elif offset != expected:
            raise FrameMismatch(
                offset, size, f"the master sent offset {offset}, our log continues at {expected}"
            )
        if offset % self._file_size + size > self._file_size:
            raise FrameMismatch(
                offset,
                size,
                f"the master's frame of {size} bytes at offset {offset} crosses the end of a file of "
                f"{self._file_size} bytes: set mappedFileSizeCommitLog to the master's value",
            )
        if size > _LAST - offset:
            raise FrameMismatch(
                offset,
                size,
                f"the master's frame of {size} bytes at offset {offset} ends beyond the last offset, {_LAST}",
            )

    def take(self, frames: Sequence[Frame]) -> tuple[int, list[Buffer], FrameMismatch | None]:
        """Those of `frames` that fit, in order: log offset, bodies, and why the next one didn't fit (if
        so)."""
        bodies: list[Buffer] = []
        start = self.expected
        mismatch: FrameMismatch | None = None
        if fitting_frames is not None and start is not None:
            count, self.expected = fitting_frames(frames, start, self._file_size, bodies)
            if count:
                self.accepted = True
                frames = frames[count:]
        for offset, body in frames:
            size = len(body)
            try:
                self.check(offset, size)
            except FrameMismatch as error:
                mismatch = error
                break
            if start is None:
                start = offset
            self.accepted = True
            self.expected = offset + size
            if size:
                bodies.append(body)
        start = start or 0
        if not bodies or not self._prefix:
            return start, bodies, mismatch
        try:
            prove_prefix(self._prefix + b"".join(bodies))
        except FrameMismatch as error:
            return start, [], error
        start -= len(self._prefix)
        bodies.insert(0, self._prefix)
        self._prefix = b""
        return start, bodies, mismatch
