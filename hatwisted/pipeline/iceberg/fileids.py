"""Names of data files.

They say which run has written a file and which snapshot alone may bring it, so what a killed run left is known.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

RUN_LETTERS: Final = 12
"""Of a run's name, in hexadecimal."""
SEQUENCE_LETTERS: Final = 12
"""The same of the number of the snapshot that alone may bring a file."""
WRITTEN: Final = "hatwisted.written"
"""Key of a snapshot's summary: a run, and the highest number of its files that are settled."""
TASKS: Final = 1 << 31
"""Numbers of files that tasks of a run have written, in no order: from here on. No snapshot says that they are
settled, so those of a run that has ended are looked up, all of them."""
ATTEMPT_BITS: Final = 96
"""Of the number that an attempt at a task draws, since its files' names are like those of the others otherwise."""


class FileIds:
    """Names of a run's files: the run, which snapshot alone may bring them, if any may not, and numbers that rise.
    They have the form that Iceberg's writers use, who take random ones, which differ in their 13th letter.

    - run: its name
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.number = 0
        """Of the last name."""
        self.attempt = 0
        """A number that all names have besides."""

    def next(self) -> uuid.UUID:
        """For another file."""
        self.number += 1
        left = 32 - RUN_LETTERS - SEQUENCE_LETTERS
        return uuid.UUID(f"{self.run}{self.sequence:0{SEQUENCE_LETTERS}x}{self.number:0{left}x}")

    @property
    def sequence(self) -> int:
        """Number of the snapshot that alone may bring the next one; 0: any may."""
        return 0

    @property
    def note(self) -> dict[str, str]:
        """For a snapshot: all files so far are in the table then, or removed."""
        return {WRITTEN: f"{self.run} {self.number}"}

    @staticmethod
    def settled(snapshot: Snapshot, run: str) -> int | None:
        """What a snapshot says of a run; None: nothing.

        - snapshot: which
        - run: its name
        """
        return FileIds.settled_in(
            {} if snapshot.summary is None else snapshot.summary.additional_properties, run
        )

    @staticmethod
    def settled_in(note: Mapping[str, str], run: str) -> int | None:
        """The same of what a snapshot is going to say.

        - note: of its own
        - run: its name
        """
        whose, _, number = note.get(WRITTEN, "").partition(" ")
        return int(number) if whose == run and number.isdigit() else None


class SnapshotIds(FileIds):
    """Names of files that the snapshot right after the one that was looked at may bring, or none: those of
    compactions and merges.

    - table: which they are of; as it is loaded, it's looked at
    """

    def __init__(self, table: Table | None) -> None:
        super().__init__(uuid.uuid4().hex[:RUN_LETTERS])
        self.table = table

    @property
    def sequence(self) -> int:
        """See FileIds. Snapshots of format 1 have no numbers: it's 0 then."""
        return 0 if self.table is None else self.table.metadata.next_sequence_number()


class TaskIds(FileIds):
    """Names of the files of one attempt at a task: nobody else in the run has them, whoever writes as well.

    - run: its name
    """

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.number = TASKS
        self.attempt = secrets.randbits(ATTEMPT_BITS)
