"""What is wrong with the network at present: directions that are cut, hosts that are down, processes that are
paused."""

from __future__ import annotations

from random import Random

from hatwisted.sim.machine import Machine


class LinkFaults:
    """random: draws delays and pieces."""

    def __init__(self, random: Random) -> None:
        self.cuts: set[tuple[str, str]] = set()
        """(from, to) addresses between which nothing arrives."""
        self.machines: dict[str, Machine] = {}
        """Those that can go down, by address."""
        self.delay = 0.003
        """Most seconds that a piece takes."""
        self.piece = 1 << 16
        """Most bytes that arrive together."""
        self._random = random

    def latency(self) -> float:
        """Seconds until the next piece arrives."""
        return self._random.random() * self.delay

    def next_piece(self, waiting: int) -> int:
        """How many of `waiting` bytes arrive next."""
        # As `randint` draws, without the three calls that lie below it.
        most, draw = self.piece, self._random.getrandbits
        bits = most.bit_length()
        size = draw(bits)
        while size >= most:
            size = draw(bits)
        return min(waiting, size + 1)

    def room(self) -> int:
        """How many bytes of one direct write a kernel takes."""
        return self.piece

    def held(self, source: str, target: str) -> bool:
        """Does nothing get from `source` to `target`?"""
        if self.cuts and (source, target) in self.cuts:
            return True
        machine = self.machines.get(target)
        return machine is not None and not machine.hears

    def heal(self) -> None:
        """The network works again."""
        self.cuts.clear()
        self.delay = 0.003
        self.piece = 1 << 16
