"""Two ways of one row, and what the second costs: measured in turn, so that the machine's other work hits both."""

from __future__ import annotations

from bench.arena import REWARM_SECONDS, Arena, Costs, LoadOptions, RowFailed, check_answers, described
from bench.figures import Outcome, Values, absolute_figure
from testbed.brokergroup import BrokerGroup, Kind

Ways = dict[str, tuple[BrokerGroup, LoadOptions]]
"""What is compared: name -> who is sent to, and how; first the way that counts as the usual one."""


class Comparison:
    """What was measured.

    - rates: messages a second, of each way
    - costs: µs of the master's CPU time for a message
    """

    def __init__(self, *names: str) -> None:
        self.rates: dict[str, Values] = {name: {} for name in names}
        self.costs: dict[str, Values] = {name: {} for name in names}

    def run(self, arena: Arena, kind: Kind, ways: Ways) -> None:
        """Warm each, then measure in turn."""
        for name, (group, options) in ways.items():
            arena.say(f"warming {kind.value}, {name}")
            arena.load(group.master_port, options, warm=arena.warm_seconds(kind), quiet=True)
        for number in range(arena.repeats):
            for name, (group, options) in ways.items():
                self.measure(arena, kind, f"{name} {number + 1}", (name, group, options))

    def measure(self, arena: Arena, kind: Kind, what: str, way: tuple[str, BrokerGroup, LoadOptions]) -> None:
        """Once.

        - arena: the run
        - kind: whose
        - what: for the progress line
        - way: name, who is sent to, and how
        """
        name, group, options = way
        arena.warm_memory()
        weighed = Costs(group.master)
        result = arena.load(
            group.master_port, options, warm=(REWARM_SECONDS, 0), seconds=arena.measure_seconds, quiet=True
        )
        check_answers(result)
        (cost,) = weighed.each(sum(result["rates"]))
        arena.say(f"{kind.value}, {what}: {described(result)}, {cost:.1f} µs a message")
        self.rates[name].setdefault(kind, []).append(float(result["rate"]))
        self.costs[name].setdefault(kind, []).append(cost)

    def losses(self) -> Values:
        """Percent that the second way's rates are below those of the first."""
        usual, other = self.rates.values()
        found = {
            kind: [100 * (1 - slow / fast) for slow, fast in zip(other.get(kind, []), each, strict=False)]
            for kind, each in usual.items()
        }
        if not found:
            raise RowFailed("nothing was measured")
        return found

    def tell(self, outcome: Outcome, load: str, limit: float) -> None:
        """The figures of a row.

        - outcome: added to
        - load: what is sent, in words
        - limit: percent that the second way may cost
        """
        usual, way = self.rates
        for name in self.rates:
            label = f"send, {load}, {name}"
            outcome.figures.append(absolute_figure(label, "msgs/s", self.rates[name], "–"))
            label = f"the same: processor time of the master, {name}"
            outcome.figures.append(absolute_figure(label, "µs a message", self.costs[name], "–", digits=1))
        text = f"≤ {limit:g} % below {usual}"
        label = f"cost of {way}, {load}"
        outcome.figures.append(absolute_figure(label, "%", self.losses(), text, at_most=limit, digits=1))
