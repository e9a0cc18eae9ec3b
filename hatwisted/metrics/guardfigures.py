"""Who isn't let in: requests that are refused, handshakes of TLS, and what half a request and unread answers
hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily

from hatwisted.metrics.families import Figures, counter, gauge, labelled
from hatwisted.tls.handshakes import Handshakes


class Guards(NamedTuple):
    """What a server knows of those it keeps out.

    - refused_connections: how many
    - refused_requests: reason -> how many
    - busy_answers: requests answered SYSTEM_BUSY
    - incomplete_bytes: of requests that haven't come whole, or wait
    - unread_bytes: of answers that clients haven't read
    - handshakes: of all its ports
    """

    refused_connections: Callable[[], int]
    refused_requests: Callable[[], Mapping[str, int]]
    busy_answers: Callable[[], int]
    incomplete_bytes: Callable[[], int]
    unread_bytes: Callable[[], int]
    handshakes: Callable[[], Sequence[Handshakes]]


class GuardFigures:
    """A source. guards: of the server."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards

    def __call__(self) -> Figures:
        """See families.Source."""
        guards, handshakes = self._guards, self._guards.handshakes()
        yield counter(
            "hatwisted_connections_refused_total",
            "Connections of clients closed for want of room, by listenAllowList, or for what they sent.",
            guards.refused_connections(),
        )
        yield labelled(
            CounterMetricFamily,
            "hatwisted_requests_refused_total",
            "Requests refused: no account or permission, changes from elsewhere, more than a rate allows.",
            ["reason"],
            [([reason], count) for reason, count in guards.refused_requests().items()],
        )
        yield counter(
            "hatwisted_busy_answers_total",
            "Requests answered SYSTEM_BUSY: as much as there may be was under way, or a rate allows no more.",
            guards.busy_answers(),
        )
        yield gauge(
            "hatwisted_incomplete_request_bytes",
            "Bytes of requests that haven't come whole, or wait for their turn (at most 64 MiB).",
            guards.incomplete_bytes(),
        )
        yield gauge(
            "hatwisted_unread_answer_bytes",
            "Bytes of answers that clients haven't read and the kernel hasn't taken (at most 64 MiB).",
            guards.unread_bytes(),
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
