"""What a name server knows of brokers, and what it is asked."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from hatwisted import __version__
from hatwisted.metrics.families import Figures, counter, gauge, labelled
from hatwisted.namesrv.members import Gone
from hatwisted.namesrv.service import NameServerService
from hatwisted.wire.codes import RequestCode


class NameServerHealth:
    """What is wrong with a name server: it serves, or it doesn't. service: the name server."""

    def __init__(self, service: NameServerService) -> None:
        self._service = service

    def dead(self) -> list[str]:
        """See web.Probed."""
        return []

    def unready(self) -> list[str]:
        """See web.Probed."""
        return [] if self._service.running else ["the name server is starting or stopping"]


class NameServerFigures:
    """A source. service: the name server."""

    def __init__(self, service: NameServerService) -> None:
        self._service = service

    def __call__(self) -> Figures:
        """See families.Source."""
        service = self._service
        size, gone = service.routes.size(), service.routes.gone
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_namesrv_info",
            "A name server; always 1.",
            ["version"],
            [([__version__], 1)],
        )
        for name, help_text, figure in (
            ("brokers", "Brokers registered (at most 10,000).", size.brokers),
            ("broker_groups", "Groups of brokers: a master and its slaves, under one name.", size.groups),
            ("leaderless_groups", "Groups whose master isn't registered.", size.leaderless),
            ("topics", "Topics that have a route.", size.topics),
            ("routes", "Topics of all groups together (at most 200,000).", size.routes),
            ("settings", "Settings that operators keep here (at most 10,000).", service.settings.count),
            (
                "registration_bytes",
                "Bytes of large registrations that wait (at most 32 MiB).",
                service.large.waiting_bytes,
            ),
        ):
            yield gauge(f"hatwisted_namesrv_{name}", help_text, figure)
        yield labelled(
            CounterMetricFamily,
            "hatwisted_namesrv_brokers_gone_total",
            "Brokers that aren't registered any more, by reason.",
            ["reason"],
            [([reason.value], gone[reason]) for reason in Gone],
        )
        yield labelled(
            CounterMetricFamily,
            "hatwisted_namesrv_requests_total",
            "Requests, by what they ask; those that are refused count.",
            ["request"],
            [([RequestCode(code).name], count) for code, count in sorted(service.requests.of.items())],
        )
        yield counter(
            "hatwisted_namesrv_bad_requests_total",
            "Requests that can't be read, are for more than there may be, or unregister somebody else's broker.",
            service.bad_requests,
        )
