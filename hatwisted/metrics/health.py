"""What is wrong with a broker, in words: for probes, which restart it or send no client to it, and for people."""

from __future__ import annotations

from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.ha.slavestate import SlaveState


class Health:
    """One broker's."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    def dead(self) -> list[str]:
        """What only a restart mends, a line each."""
        reason = self._node.parts.store.log.stopped_reason
        return [] if reason is None else [f"the log takes nothing more: {reason}"]

    def unready(self) -> list[str]:
        """Why clients had better go elsewhere, a line each; `dead` is among it."""
        node = self._node
        if not node.running:
            return ["the broker is starting or stopping"]
        services = node.services
        found = self.dead() + self._dispatch()
        found += self._slave(services) if isinstance(services, SlaveRole) else self._master()
        servers, registered = node.parts.config.config.name_servers, node.parts.registration.registered_at
        if servers and not registered:
            found.append(f"no name server has taken the registration: {', '.join(servers)}")
        return found

    def _dispatch(self) -> list[str]:
        reason = self._node.parts.store.reput.stalled_reason
        return [] if reason is None else [f"messages don't get into their queues: {reason}"]

    def _master(self) -> list[str]:
        parts = self._node.parts
        found = []
        full = parts.store.watermark.full_reason
        if full is not None:
            found.append(f"puts are refused: {full}")
        reason = parts.ha.refusal()
        if reason is not None:
            found.append(f"puts are refused: {reason}")
        return found

    def _slave(self, role: SlaveRole) -> list[str]:
        status = role.ha_client.status()
        if status.state == SlaveState.TRANSFER.value and not status.problem:
            return []
        why = f": {status.problem}" if status.problem else ""
        return [f"the link to the master is in state '{status.state}'{why}"]
