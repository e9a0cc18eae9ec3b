"""What goes wrong on a disk at an operation counted from now: an error, or a failure of power in its middle."""

from __future__ import annotations

from collections.abc import Iterable

NEEDS_ROOM = frozenset(("reserve", "pwrite", "open"))
"""Operations that a full disk refuses, if they need new blocks."""

NEEDS_DESCRIPTOR = frozenset(("open", "listdir", "read", "sync_folder", "sync_all", "lock"))

CHANGES = frozenset(
    "open pwrite reserve extend datasync makedirs remove replace sync_folder sync_all lock".split()
)
"""Operations that make a step of what a program leaves on the disk: a failure of power may strike at each."""


class Strike:
    """Something that goes wrong at operations counted from now.

    - operations: names of those that count; empty: all that change something
    - path: part of the path
    - after: operations that go well before
    - error: an errno; None: the power fails
    - times: operations that fail
    - torn: share of a write's bytes that are written all the same
    """

    def __init__(
        self,
        operations: Iterable[str] = (),
        path: str = "",
        after: int = 0,
        error: int | None = None,
        times: int = 1,
        torn: float = 0.0,
    ) -> None:
        self.operations = frozenset(operations) or CHANGES
        self.path = path
        self.after = after
        self.error = error
        self.times = times
        self.torn = torn

    def hits(self, operation: str, path: str) -> bool:
        """Is it this one's turn?"""
        if not self.times or operation not in self.operations or self.path not in path:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


class Torn(Exception):
    """Comes with an error: the share of a write's bytes that are written all the same."""

    def __init__(self, share: float) -> None:
        super().__init__(f"{share:.0%} written")
        self.share = share
