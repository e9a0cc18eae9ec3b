"""Producers of transactions: for which message the answer to an end speaks."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.history import Place, Sent
from hatwisted.sim.setup import draw_setup
from hatwisted.sim.simulation import Simulation
from hatwisted.sim.transactionload import FIRST_END


class EndTests(SynchronousTestCase):
    def places(self, suits: Callable[[int], bool]) -> list[Place]:
        """Where the ends of one transaction stand: its first, and another, of the half as its producer sent it.

        suits: is this its number?"""
        setup = msgspec.structs.replace(draw_setup(2, ()), seconds=15.0, transactions=True, consumers=False)
        simulation = Simulation(setup)
        sent = simulation.promises.sent
        halves: list[Sent] = []

        def looked() -> None:
            ends = [each for number, each in sent.items() if number > FIRST_END and each.place is not None]
            fitting = [sent[int(end.body)] for end in ends if suits(int(end.body))]
            if fitting and not halves:
                half = fitting[0]
                halves.append(half)
                assert half.place is not None
                offset, log_offset = half.place.queue_offset, half.place.log_offset
                offsets = {"tranStateTableOffset": str(offset), "commitLogOffset": str(log_offset)}
                simulation._transactions._end(simulation.group.master_address, offsets, half)

        simulation.looked = looked
        self.assertEqual(simulation.run().violations, [])
        ends = [each for number, each in sent.items() if number > FIRST_END and each.body == halves[0].body]
        places = [end.place for end in ends if end.place is not None]
        self.assertEqual(len(places), 2)
        return places

    def test_an_end_that_is_repeated_speaks_for_the_copy_that_is_there(self) -> None:
        first, second = self.places(lambda number: number % 4 < 2)
        self.assertEqual(first, second)

    def test_each_half_has_a_copy_of_its_own_if_it_was_parked_again(self) -> None:
        first, second = self.places(lambda number: number % 4 >= 2)
        self.assertLess(first.log_offset, second.log_offset)
