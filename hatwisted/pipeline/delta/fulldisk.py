"""No room where a table is, told in one line.

Whatever was being written then is in the table whole or not at all, as after a kill, so there's nothing to repair:
files that were begun are removed, and the next run goes on after what is in the table.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from deltalake.exceptions import DeltaError

from hatwisted.pipeline.delta.errors import NoRoom, WrongTable

FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def telling_full(table: str) -> Iterator[None]:
    """An error that says there's no room as NoRoom; others as they are.

    - table: its path or name
    """
    try:
        yield
    except (OSError, DeltaError, WrongTable) as error:
        if not _is_full(error):
            raise
        raise no_room(table) from error


def no_room(table: str) -> NoRoom:
    """The error. table: its path or name."""
    return NoRoom(
        f"{table}: there's no room left on its disk: make room and start again; what has landed is whole"
    )


def _is_full(error: Exception) -> bool:
    """delta-rs's errors have the number in their text only."""
    return getattr(error, "errno", None) in FULL or any(
        f"(os error {number})" in str(error) for number in FULL
    )
