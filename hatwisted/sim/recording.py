"""What a run looked like, moment by moment: the facts behind `simulationpage`.

A recording looks at the simulation after each of the operator's looks, and changes nothing: a seed that is
recorded comes to the same digest. A moment holds what has changed since the one before; whoever reads them in
order knows everything of every moment.
"""

from __future__ import annotations

import errno
from typing import TypeVar

import msgspec

from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.ha.slavestate import SlaveState
from hatwisted.sim.faultplan import HOSTS, Fault
from hatwisted.sim.machine import Machine
from hatwisted.sim.setup import ADDRESSES, MEMBERS
from hatwisted.sim.simulation import Simulation

_Value = TypeVar("_Value")

Figures = dict[str, str | int | None]
"""Of one host, by name."""

TOLD = {
    "boot": "{} starts",
    "kill": "{}'s process ends",
    "power off": "{} loses its power",
    "power on": "{} has power again",
}
"""Notes of a trace that are shown as events of a machine."""


class Moment(msgspec.Struct, omit_defaults=True):
    """What has changed by a time (seconds since the start).

    - hosts: figures by host; without a process it has none
    - links: connections and cut directions by pair of hosts, as "a b"
    - answers: so far, by code
    """

    at: float
    hosts: dict[str, Figures] = {}
    links: dict[str, str] = {}
    answers: dict[str, int] = {}


class Event(msgspec.Struct):
    """Something that happened at a time (seconds since the start)."""

    at: float
    what: str


class ShownFault(msgspec.Struct):
    """A fault, from `at` to `ends`. about: whom it concerns."""

    at: float
    ends: float
    kind: str
    about: str


class Recording:
    """Of one run, from now on."""

    def __init__(self, simulation: Simulation) -> None:
        self.moments: list[Moment] = []
        self.events: list[Event] = []
        self.faults: list[ShownFault] = []
        self._simulation = simulation
        self._group = simulation.group
        self._start = self._group.clock.seconds()
        self._known = Moment(at=0.0)
        self._refusals = self._emptied = 0
        self._master = self._group.master
        self._group.trace.listener = self._noted
        simulation.looked = self.look
        self.look()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return round(self._group.clock.seconds() - self._start, 3)

    def look(self) -> None:
        """Note what has changed."""
        known = self._known
        moment = Moment(at=self.now)
        for name, machine in self._group.machines.items():
            figures = self._figures(name, machine)
            before = known.hosts.get(name, {})
            changed = {key: value for key, value in figures.items() if before.get(key) != value}
            changed |= dict.fromkeys(sorted(before.keys() - figures.keys()))
            if changed:
                moment.hosts[name] = changed
                known.hosts[name] = {**before, **changed}
        moment.links = _fresh(known.links, self._links())
        moment.answers = _fresh(known.answers, dict(self._simulation.answers))
        if moment.hosts or moment.links or moment.answers:
            self.moments.append(moment)
        self._tell_changes()

    def _figures(self, name: str, machine: Machine) -> Figures:
        figures: Figures = {"state": self._state(machine)}
        if name in MEMBERS:
            figures["given"] = self._group.consumptions[MEMBERS[name]].deliveries
        if name not in HOSTS:
            return figures
        figures["role"] = "master" if name == self._group.master else "slave"
        service = machine.service
        if not machine.running or service is None:
            return figures
        parts = service.parts
        log = parts.store.log
        figures |= {"start": log.min_offset, "end": log.max_offset, "flushed": log.flushed_offset}
        if isinstance(service.services, SlaveRole):
            client = service.services.ha_client
            link = client._link
            figures["link"] = client.state.value
            figures["reported"] = (
                link.reported if client.state is SlaveState.TRANSFER and link is not None else None
            )
        else:
            figures["acknowledged"] = parts.ha.group_transfer.acked_offset
            figures["waiting"] = len(parts.ha.group_transfer)
        return figures

    def _state(self, machine: Machine) -> str:
        if not machine.powered:
            return "off"
        if machine.process is None:
            return "down"
        return "paused" if machine.process.paused_until > self._group.clock.seconds() else "runs"

    def _links(self) -> dict[str, str]:
        """For each pair: how many connections, and which directions are cut, as "2", "1 >" or "0 <>"."""
        names = {address: name for name, address in ADDRESSES.items()}
        counts = dict.fromkeys(self._known.links, 0)
        for end in self._group.network.transports:
            one, other = names[end.getHost().host], names[end.getPeer().host]
            if one < other:
                pair = f"{one} {other}"
                counts[pair] = counts.get(pair, 0) + 1
        cuts = {(names[source], names[target]) for source, target in self._group.faults.cuts}
        pairs = counts.keys() | {f"{min(cut)} {max(cut)}" for cut in cuts}
        links = {}
        for pair in sorted(pairs):
            one, other = pair.split()
            marks = ("<" if (other, one) in cuts else "") + (">" if (one, other) in cuts else "")
            links[pair] = f"{counts.get(pair, 0)} {marks}".strip()
        return links

    def _noted(self, what: str) -> None:
        if what.startswith("fault "):
            fault = msgspec.json.decode(what.removeprefix("fault "), type=Fault)
            about = " and ".join(filter(None, (fault.host, fault.other)))
            self.faults.append(ShownFault(self.now, round(self.now + fault.lasts, 3), fault.kind, about))
            return
        kind, _, machine = what.rpartition(" ")
        if kind in TOLD:
            self.events.append(Event(self.now, TOLD[kind].format(machine)))
        elif what.startswith("strike "):
            _, operation, path, number = what.split()
            error = "power fails" if number == "None" else errno.errorcode[int(number)]
            self.events.append(Event(self.now, f"{error} in {operation} of {path.removeprefix('/store/')}"))

    def _tell_changes(self) -> None:
        operator = self._simulation.operator
        if self._group.master != self._master:
            self._master = self._group.master
            self.events.append(Event(self.now, f"{self._master} is the master now"))
        for refusal in operator.refusals[self._refusals :]:
            self.events.append(Event(self.now, f"start refused: {refusal}"))
        self._refusals = len(operator.refusals)
        if operator.emptied > self._emptied:
            self._emptied = operator.emptied
            self.events.append(Event(self.now, "the operator empties the slave"))


def _fresh(known: dict[str, _Value], now: dict[str, _Value]) -> dict[str, _Value]:
    """What is new or different in `now`; from then on it's known."""
    fresh = {key: value for key, value in now.items() if known.get(key) != value}
    known.update(fresh)
    return fresh
