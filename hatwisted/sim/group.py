"""The machines of a run and their network, and what can be seen of them from outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.nameserver import build_name_server
from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.ha.slavestate import SlaveState
from hatwisted.sim.consumption import Consumption
from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.groupmember import GroupMember
from hatwisted.sim.linkfaults import LinkFaults
from hatwisted.sim.machine import Machine
from hatwisted.sim.memorynet import BUFFER_SIZE, MemoryNetwork
from hatwisted.sim.messageload import TOPICS
from hatwisted.sim.promises import Terms
from hatwisted.sim.setup import ADDRESSES, BROKER_PORT, GROUPS, MEMBERS, NAME_SERVER, Setup
from hatwisted.sim.simclock import SimClock
from hatwisted.sim.storeview import LiveStore
from hatwisted.sim.trace import Trace

START = 1_795_221_957.0
"""Seconds since the epoch when a run begins."""

TIGHT_BUFFER = 8 << 10
"""Bytes of a transport's buffer in the runs whose limits are tight."""


class Group:
    """Two brokers, a name server and members of consumer groups as `setup` has them, off at first."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.clock = SimClock(START)
        self.trace = Trace(self.clock.seconds)
        self.faults = LinkFaults(self.random("network"))
        self.network = MemoryNetwork(
            self.clock,
            latency=self.faults.latency,
            piece=self.faults.next_piece,
            room=self.faults.room,
            buffer_size=TIGHT_BUFFER if setup.tight else BUFFER_SIZE,
            held=self.faults.held,
        )
        members = tuple(MEMBERS) if setup.consumers else ()
        self.consumptions = {terms.name: Consumption(terms) for terms in GROUPS if setup.consumers}
        """What each consumer group has consumed."""
        self.machines = {name: self._machine(name) for name in (*HOSTS, "names", *members)}
        self.master = "a"
        """Name of the machine that the operator calls the master."""
        self.terms = dict.fromkeys(HOSTS, setup.terms)
        """How each broker is configured to answer, from its next start on if it's down."""
        self.former_terms: list[tuple[str, Terms]] = []
        """How they were configured before, in the order of the changes."""
        self.hands_off: set[str] = set()
        """Machines that the operator leaves alone: they stop in order, or wait for a promotion."""

    def random(self, purpose: str) -> Random:
        """A source of its own for each purpose, so that leaving out one fault changes no other's draws."""
        return Random(f"{self.setup.seed}/{purpose}")

    def _machine(self, name: str) -> Machine:
        machine = Machine(name, ADDRESSES[name], self.clock, self.network, self.trace, self.random(name))
        drift = self.setup.drift
        machine.speed = 1.0 + self.random(f"speed of {name}").choice((-drift, 0.0, drift))
        self.faults.machines[machine.address] = machine
        return machine

    @property
    def slave(self) -> str:
        """The other broker's machine."""
        return HOSTS[1 - HOSTS.index(self.master)]

    @property
    def master_address(self) -> str:
        """Where the master takes requests, as "host:port"."""
        return f"{ADDRESSES[self.master]}:{BROKER_PORT}"

    def configure(self, name: str, terms: Terms) -> None:
        """A broker that is about to start answers otherwise from now on."""
        self.former_terms.append((name, self.terms[name]))
        self.terms[name] = terms

    def terms_since(self, changes: int, master: str, slave: str) -> Terms:
        """What an answer means under any configuration that its brokers have had meanwhile: the least of it.

        - changes: of configurations, before the request was sent
        - master, slave: who has answered, and its slave
        """
        if changes == len(self.former_terms):  # mostly
            sync_slaves, sync_flush, _ = self.terms[master]
            return Terms(sync_slaves, sync_flush, self.terms[slave].durable_acks)
        since = [*self.former_terms[changes:], *self.terms.items()]
        masters = [terms for name, terms in since if name == master]
        return Terms(
            all(terms.sync_slaves for terms in masters),
            all(terms.sync_flush for terms in masters),
            all(terms.durable_acks for name, terms in since if name == slave),
        )

    def build(self, name: str) -> Callable[[Any], Any]:
        """Puts together what runs on that machine at present."""
        if name == "names":
            return partial(build_name_server, self.setup.name_server())
        if name in MEMBERS:
            return lambda parts: GroupMember(
                parts, name, NAME_SERVER, TOPICS, self.consumptions[MEMBERS[name]]
            )
        return partial(build_broker, self.setup.broker(name, self.terms[name], slave=name != self.master))

    def build_twin(self, name: str) -> Callable[[Any], Any]:
        """Puts together a broker with another root and other ports than that machine's, but with its log."""
        config = self.setup.broker(name, self.terms[name], slave=name != self.master)
        twin = msgspec.structs.replace(
            config,
            store_path_root_dir="/twin",
            store_path_commit_log="/store/commitlog",
            listen_port=BROKER_PORT + 100,
        )
        return partial(build_broker, twin)

    def mute(self) -> None:
        """The run is over."""
        for machine in self.machines.values():
            for service in (*machine.gone, machine.service):
                if isinstance(service, GroupMember):
                    service.mute()

    def serves(self, name: str) -> bool:
        """Is it running, and not about to stop? A look into a store that is closed would open it again."""
        return self.machines[name].running and name not in self.hands_off

    def store(self, name: str) -> LiveStore:
        """The store of a machine that serves."""
        machine = self.machines[name]
        return LiveStore(name, machine.service.parts.store, machine.disk)

    def link(self) -> Any:
        """The slave's HA client, if both brokers serve."""
        if not all(map(self.serves, HOSTS)):
            return None
        services = self.machines[self.slave].service.services
        return services.ha_client if isinstance(services, SlaveRole) else None

    def linked(self) -> bool:
        """Do both ends have the link?"""
        return self.common_link() is not None

    def common_link(self) -> Any:
        """The slave's end of the link that both ends have."""
        client = self.link()
        if client is None or client.state is not SlaveState.TRANSFER:
            return None
        link = client._link
        if link is None or not link.progressed:
            return None
        # A slave doesn't hear of a power failure: its end may belong to a link with the previous process.
        ends = self.machines[self.master].service.parts.ha._links
        return link if any(end.transport.getPeer() == link.transport.getHost() for end in ends) else None

    def equal_ends(self) -> bool:
        """Do the logs end at the same offset?"""
        return self.store("a").log_range()[1] == self.store("b").log_range()[1]
