"""What a dialect's receivers make of the bytes of a link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hatwisted.wire.haframe import Frame


class Reply(NamedTuple):
    """The other side is owed these bytes now: a step of a handshake."""

    data: bytes


class FirstReport(NamedTuple):
    """A slave says where it wants to begin; comes once, and before any other report."""

    offset: int


class Report(NamedTuple):
    """A slave has stored the log up to here."""

    offset: int


class Opened(NamedTuple):
    """The link to the master stands, nothing is in the way of the first report; comes once."""


class Frames(NamedTuple):
    """Log bytes and heartbeats of the master, in order; none if what arrived completes none."""

    frames: Sequence[Frame]


MasterEvent = Reply | FirstReport | Report
"""On the master's side of a link."""

SlaveLinkEvent = Reply | Opened | Frames
"""On the slave's side."""
