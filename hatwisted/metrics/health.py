"""What is wrong with a broker, in words: for probes, which restart it or send no client to it, and for people."""

from __future__ import annotations

from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.broker.node.slaverole import LOGS_DIFFER, SlaveRole
from hatwisted.ha.slavestate import SlaveState
from hatwisted.health.readiness import Kind, Reason


class Health:
    """One broker's."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    def dead(self) -> list[str]:
        """What only a restart mends, a line each."""
        return [each.text for each in self._log()]

    def unready(self) -> list[str]:
        """Why clients had better go elsewhere, a line each; `dead` is among it."""
        return [each.text for each in self.reasons()]

    def reasons(self) -> list[Reason]:
        """The same with what kind of reason each is."""
        node = self._node
        if not node.running:
            return [Reason(kind=Kind.STARTING, text="the broker is starting or stopping")]
        services = node.services
        found = self._log() + self._dispatch()
        found += self._slave(services) if isinstance(services, SlaveRole) else self._master()
        servers, registered = node.parts.config.config.name_servers, node.parts.registration.registered_at
        if servers and not registered:
            text = f"no name server has taken the registration: {', '.join(servers)}"
            found.append(Reason(kind=Kind.NAMES, text=text))
        return found

    def _log(self) -> list[Reason]:
        reason = self._node.parts.store.log.stopped_reason
        return [] if reason is None else [Reason(kind=Kind.LOG, text=f"the log takes nothing more: {reason}")]

    def _dispatch(self) -> list[Reason]:
        reason = self._node.parts.store.reput.stalled_reason
        if reason is None:
            return []
        return [Reason(kind=Kind.DISPATCH, text=f"messages don't get into their queues: {reason}")]

    def _master(self) -> list[Reason]:
        parts = self._node.parts
        why = {Kind.DISK: parts.store.watermark.full_reason, Kind.SLAVES: parts.ha.refusal()}
        return [
            Reason(kind=kind, text=f"puts are refused: {reason}")
            for kind, reason in why.items()
            if reason is not None
        ]

    def _slave(self, role: SlaveRole) -> list[Reason]:
        status = role.ha_client.status()
        if status.state == SlaveState.TRANSFER.value and not status.problem:
            return []
        why = f": {status.problem}" if status.problem else ""
        kind = Kind.DIFFERENT if role.ha_client.state in LOGS_DIFFER else Kind.LINK
        return [Reason(kind=kind, text=f"the link to the master is in state '{status.state}'{why}")]
