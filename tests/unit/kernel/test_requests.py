"""Sends taken from a read: what the compiled twin takes equals what the receiver makes of the same frames."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hatwisted.wire.remoting import SendCommand
from tests.support.examples import examples
from tests.support.kerneltwins import received
from tests.unit.kernel.takenscenes import CODES, FIELDS, KINDS, OPAQUES, Scenes, damaged, frame, header


class TakingTests(Scenes.Case):
    way = "take_sends"
    fields = FIELDS
    kinds = KINDS
    received = staticmethod(received)

    def test_they_are_commands_with_a_header_of_their_own(self) -> None:
        ((command,), _) = self.taken(frame(header(FIELDS)))
        self.assertIsInstance(command, SendCommand)

    @examples(100)
    @given(st.data(), OPAQUES, CODES)
    def test_any_fields(self, data: st.DataObject, opaque: int, code: int) -> None:
        self.assert_fields_as_received(data, opaque, code)

    @examples(100)
    @given(st.randoms(use_true_random=False))
    def test_any_damage(self, chance: random.Random) -> None:
        self.assert_as_received(damaged(self.send * 2, chance))
