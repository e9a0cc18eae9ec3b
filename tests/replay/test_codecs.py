"""Decoders of what peers send."""

from __future__ import annotations

from tests.fuzz.kerneltargets import KERNELS
from tests.fuzz.signedtargets import SIGNED
from tests.fuzz.twintargets import TWINS
from tests.fuzz.wiretargets import WIRE
from tests.replay.replayed import Replayed, replaying


@replaying({**WIRE, **SIGNED, **KERNELS, **TWINS})
class CodecTests(Replayed):
    """Nothing but its own error leaves a decoder."""
