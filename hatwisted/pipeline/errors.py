"""Errors of a pipeline's input, each in one line that names the file and offset and says what to do next.

They cross process borders (a Spark task fails in a worker, its error is shown by the driver), so each is made
of one text and nothing else.
"""

from __future__ import annotations

import re
from typing import Final

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_JAVA_CALLS: Final = re.compile(r"\n\s*at [\w.$]+\(.*", re.DOTALL)


class PipelineError(Exception):
    """The pipeline can't go on; str() is one line for the person who started it."""


class NotAStore(PipelineError):
    """The folder holds no commit log."""


class WrongLogFile(PipelineError):
    """A file of the log has a foreign name, a length unlike the others', or holds something else."""


class DamagedLogRange(PipelineError):
    """Bytes in the middle of a log aren't a record, and the reader's mode is to fail on that."""


class LostRange(PipelineError):
    """A part of a log that was to be read isn't there any more."""


class WrongSchema(PipelineError):
    """A column that doesn't exist, or not with this type."""


def said(error: Exception) -> str:
    """What a library says, in one line: without its breaks, its colours, and what Java's calls were; which error
    it is, if it says nothing."""
    return " ".join(_JAVA_CALLS.sub("", _COLOUR.sub("", str(error))).split()) or type(error).__name__
