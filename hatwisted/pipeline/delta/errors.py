"""What can be wrong with a table to land into."""

from typing import Final

from hatwisted.pipeline.errors import PipelineError

LAND_AGAIN: Final = (
    "what was being written isn't committed; start the landing again: it goes on after the rows that the table has"
    " now, and lands again what it lacks"
)
"""What comes next where an earlier version is the table's, beneath a landing."""


class WrongTable(PipelineError):
    """The folder isn't a Delta table, or is one that can't take these rows as they are."""


class NoRoom(PipelineError):
    """The disk that the table is on is full."""


class Fenced(PipelineError):
    """Another run took over this landing; what this one wrote since then isn't committed."""


def taken_over(gone: str) -> Fenced:
    """What it means to a landing that its file is gone. gone: says of which table, and which file"""
    return Fenced(
        f"{gone}: a later run of the same logs took over, and removed what this one can't commit any more;"
        " stop one of the two landings"
    )


class GoneFile(WrongTable):
    """Somebody has removed a file before it was finished."""


class Unclaimed(PipelineError):
    """There are rows of a broker that this run hasn't claimed; they aren't committed."""


class ByQueue(PipelineError):
    """The table has some queues of a broker, and where its log goes on after them isn't one place."""
