"""What others have named, in the log: names of topics, groups and clients may hold what they like.

A line break in a name would begin a line that looks like one of ours, and a terminal obeys the control
characters in what it shows. So the fields of an event are made printable before any observer formats them: this
one comes before the one that writes the log, and the two share the event.

Rejected: an escape in each of some two hundred calls of the log, which the next one forgets; and a filter
behind the formatting, where a line break of ours can't be told from one of theirs. Tracebacks keep their lines.
"""

from __future__ import annotations

from copy import copy

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import provider

from hatwisted.wire.printable import printable

_LINES = "\n\t"
"""In a traceback."""


@provider(ILogObserver)
def make_printable(event: LogEvent) -> None:
    """Change the event's fields. Errors become their text."""
    for name, value in event.items():
        if isinstance(value, str):
            # Formats are ours; what was logged in Twisted's former way, or printed, may be so in lines.
            event[name] = printable(value, _LINES if name.startswith("log_") else "")
        elif isinstance(value, Failure):
            event[name] = _printable_failure(value)
        elif isinstance(value, BaseException) and not str(value).isprintable():
            event[name] = printable(str(value))


def _printable_failure(failure: Failure) -> Failure:
    text = str(failure.value)
    if (harmless := printable(text, _LINES)) == text:
        return failure
    shown = copy(failure)
    shown.value = Exception(harmless)
    return shown


def keep_log_printable() -> None:
    """From now on, for all observers that come later. Once is enough."""
    globalLogPublisher.removeObserver(make_printable)
    globalLogPublisher.addObserver(make_printable)
