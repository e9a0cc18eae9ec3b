"""Readers of a store's files."""

from __future__ import annotations

from tests.fuzz.logtargets import LOGS
from tests.replay.replayed import Replayed, replaying


@replaying(LOGS)
class LogTests(Replayed):
    """Nothing but its own error leaves a decoder."""
