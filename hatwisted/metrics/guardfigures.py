"""Who isn't let in: requests that are refused, handshakes of TLS, and what half a request holds."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily

from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.metrics.families import Figures, counter, gauge, labelled


class GuardFigures:
    """A source. node: the broker."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    def __call__(self) -> Figures:
        """See families.Source."""
        node, handshakes = self._node, self._node.parts.handshakes()
        yield counter(
            "hatwisted_connections_refused_total",
            "Connections of clients closed for want of room, by listenAllowList, or for what they sent.",
            node.refused_connections,
        )
        yield labelled(
            CounterMetricFamily,
            "hatwisted_requests_refused_total",
            "Requests refused: no account or permission, changes from elsewhere, more than a rate allows.",
            ["reason"],
            [([reason], count) for reason, count in node.parts.entrance.refused.items()],
        )
        yield gauge(
            "hatwisted_incomplete_request_bytes",
            "Bytes of requests that haven't come whole, or wait for their turn (at most 128 MiB of a port).",
            node.incomplete_bytes,
        )
        yield gauge(
            "hatwisted_tls_handshakes_under_way",
            "Handshakes under way (at most 1,000 of a port).",
            sum(each.under_way for each in handshakes),
        )
        yield labelled(
            CounterMetricFamily,
            "hatwisted_tls_handshakes_total",
            "Handshakes that have ended.",
            ["result"],
            [
                (["completed"], sum(each.completed_total for each in handshakes)),
                (["failed"], sum(each.failed_total for each in handshakes)),
            ],
        )
