"""Who the broker is, where it's registered, and what its start has found."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily

from hatwisted import __version__
from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.config.schema import BrokerRole
from hatwisted.metrics.families import Figures, counter, gauge, labelled
from hatwisted.metrics.trafficfigures import Labels


class BrokerFigures:
    """A source. node: the broker."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    def __call__(self) -> Figures:
        """See families.Source."""
        parts = self._node.parts
        identity, role = parts.identity, parts.role
        kind = BrokerRole.SLAVE if role.slave else parts.config.config.broker_role
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_broker_info",
            "Who this is; always 1.",
            ["cluster", "broker", "broker_id", "role", "version"],
            [([identity.cluster, identity.name, str(role.broker_id), kind.value, __version__], 1)],
        )
        yield labelled(
            GaugeMetricFamily,
            "rocketmq_broker_permission",
            "4: may be read from, 2: may be sent to, 6: both.",
            Labels._fields,
            [([identity.cluster, "broker", identity.name], parts.config.config.broker_permission)],
        )
        yield gauge(
            "hatwisted_name_servers_registered",
            "Name servers that have taken our registration.",
            parts.registration.registered_at,
        )
        yield gauge(
            "hatwisted_name_servers_configured", "Name servers.", len(parts.config.config.name_servers)
        )
        yield gauge(
            "hatwisted_held_pulls", "Pulls that wait for a message (at most 100,000).", parts.hold.count
        )
        yield counter(
            "hatwisted_sends_put_off_total",
            "Reads of messages that had to wait for earlier ones of their address to be acknowledged.",
            parts.connections.windows.waits_total,
        )
        yield from self._occupied()
        yield from self._recovery()

    def _occupied(self) -> Figures:
        """How much there is of what has a limit, and nobody else tells."""
        parts = self._node.parts
        clients, admin = parts.consumers.clients, parts.consumer_admin
        for name, help_text, figure in (
            (
                "memberships",
                "Clients in groups, one counting for each (at most 200,000).",
                clients.memberships,
            ),
            ("subscriptions", "Topics that groups subscribe to (at most 100,000).", clients.subscriptions),
            ("queue_locks", "Queues that members have locked (at most 1,000,000).", len(admin.locks)),
            ("client_calls", "Questions to clients without an answer (at most 16,384).", admin.calls.count),
            (
                "filter_characters",
                "Characters of filter expressions and their names (at most 524,288).",
                parts.tables.filters.characters,
            ),
        ):
            yield gauge(f"hatwisted_{name}", help_text, figure)
        yield counter(
            "hatwisted_progress_left_out_total",
            "Commits that weren't kept, as consumers' progress is as large as a slave takes it (12 MiB).",
            parts.tables.offsets.left_out_total,
        )

    def _recovery(self) -> Figures:
        report = self._node.recovered
        if report is None:
            return
        for name, help_text, figure in (
            ("seconds", "Seconds that the start took to load the store.", self._node.recovery_seconds),
            ("unclean", "1 if the broker hadn't been stopped in order.", report.unclean),
            ("torn_bytes", "Bytes of torn tail that the start has cut.", report.torn_bytes),
            ("records", "Records that the start has checked.", report.records),
        ):
            yield gauge(f"hatwisted_recovery_{name}", help_text, figure)
