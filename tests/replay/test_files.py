"""Readers of configurations, accounts, tables and a lake's log."""

from __future__ import annotations

from tests.fuzz.deltatargets import DELTA
from tests.fuzz.filetargets import FILES
from tests.replay.replayed import Replayed, replaying


@replaying({**FILES, **DELTA})
class FileTests(Replayed):
    """Nothing but its own error leaves a decoder."""
