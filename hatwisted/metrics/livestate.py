"""What the live page shows: one broker at this moment, ready to be put into the template."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hatwisted import __version__
from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.broker.node.masterrole import MasterRole
from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.health.figures import BrokerFigures, View
from hatwisted.health.judgement import Finding, Weight, findings
from hatwisted.health.readiness import late, of_itself
from hatwisted.health.words import make_of, state_of
from hatwisted.metrics.chart import Chart, drawn, span_of
from hatwisted.metrics.eventfeed import EventFeed, Told
from hatwisted.metrics.groupwatch import GroupWatch
from hatwisted.metrics.health import Health
from hatwisted.metrics.hour import INTERVAL, Hour, Totals, counts_of
from hatwisted.metrics.linkwatch import LOOK_INTERVAL, LinkWatch
from hatwisted.timing.histogram import Histogram
from hatwisted.timing.periodic import PeriodicCall


def _when(told: Told) -> float:
    return told.at


class LiveState:
    """One broker's.

    - node: the broker
    - watch: knows how late links are
    - health: what is wrong with it
    - group: how the others are
    - feed: what has happened
    """

    def __init__(
        self, node: BrokerNode, watch: LinkWatch, health: Health, group: GroupWatch, feed: EventFeed
    ) -> None:
        self._node = node
        self._watch = watch
        self._health = health
        self._group = group
        self._feed = feed
        self._clock = node.parts.clock
        self.hour = Hour()
        self._moments = PeriodicCall(self._clock, "noting the last hour", self._note)

    def start(self) -> None:
        """Note moments, and listen to the log."""
        self._feed.start()
        self._moments.start(INTERVAL, now=True)

    def stop(self) -> None:
        """Neither any more."""
        self._moments.stop()
        self._feed.stop()

    def _note(self) -> None:
        stats, stages = self._node.parts.store.stats, self._stages()
        totals = Totals(self._clock.seconds(), stats.put_total, stats.get_total, counts_of(stages))
        self.hour.note(totals, stages["append"].bounds, self._furthest_behind())

    def _stages(self) -> dict[str, Histogram]:
        found = {"append": self._node.parts.store.log.append_times}
        if isinstance(self._node.services, MasterRole):
            acks = self._node.services.acks
            found |= {"flush": acks.flush_times, "replicate": acks.replicate_times}
        return found

    def _furthest_behind(self) -> float | None:
        if isinstance(self._node.services, SlaveRole):
            return self._watch.lag_seconds if self._watch.lag_seconds >= 0 else None
        return max((self._seconds_behind(link) for link in self._links()), default=None)

    def _links(self) -> list[Any]:
        return [link for link in self._node.parts.ha.status() if link.ack_offset >= 0]

    def _seconds_behind(self, link: Any) -> float:
        return self._watch.own.behind(link.ack_offset, self._clock.seconds()) if link.lag_bytes else 0.0

    # -- for the template ------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """All but the charts."""
        parts, store = self._node.parts, self._node.parts.store
        self._group.look_soon()
        view = self._group.view
        found = self._findings(view)
        slave = self._node.services if isinstance(self._node.services, SlaveRole) else None
        lag = self._furthest_behind()
        return {
            "at": text_of_time(self._clock.seconds()),
            "name": parts.identity.name,
            "number": parts.role.broker_id,
            "cluster": parts.identity.cluster,
            "address": parts.identity.address,
            "role": "slave" if slave is not None else parts.config.config.broker_role.value,
            "version": __version__,
            "findings": found,
            "grave": sum(each.weight is Weight.PROBLEM for each in found),
            "group": [] if view is None else [_member(view, each) for each in view.now.brokers],
            "name_servers": {} if view is None else view.now.name_servers,
            "tiles": [
                ("in_rate", "Messages in", f"{store.stats.put_tps()[0]:,.0f}/s", store.stats.put_total),
                (
                    "out_rate",
                    "Messages out",
                    f"{store.stats.get_transferred_tps()[0]:,.0f}/s",
                    store.stats.get_total,
                ),
                ("log_end", "Log ends at", f"{store.log.max_offset:,}", store.log.max_offset),
                (
                    "unsynced",
                    "Not synced",
                    size_text(store.log.max_offset - store.log.flushed_offset),
                    store.log.max_offset - store.log.flushed_offset,
                ),
                ("behind", "Behind", "nobody" if lag is None else lag_text(lag), lag or 0),
                ("disk", "Disk", f"{store.disk_usage_ratio:.0%}", round(store.disk_usage_ratio, 4)),
                ("clients", "Clients", f"{self._node.connections:,}", self._node.connections),
            ],
            "links": [self._link(link) for link in self._links()],
            "slave": None if slave is None else self._own_link(slave),
            "events": [
                (text_of_time(told.at), told.level, told.name, told.text)
                for told in sorted((*self._feed.told, *self._group.told), key=_when, reverse=True)
            ],
        }

    def _findings(self, view: View | None) -> list[Finding]:
        """What the broker knows of itself, and what the others' answers say: as `hatwisted status` puts it."""
        parts = self._node.parts
        where = f"{parts.identity.name} {f'slave {parts.role.broker_id}' if parts.role.slave else 'master'}"
        found = [] if view is None else findings(view)
        if isinstance(self._node.services, SlaveRole):
            found += late(where, self._watch.lag_seconds)
        else:
            for link in self._links():
                found += late(f"slave {link.address}", self._seconds_behind(link))
        return of_itself(where, self._health.reasons(), found)

    def _link(self, link: Any) -> dict[str, Any]:
        return {
            "address": link.address if link.name is None else f"{link.address}, {link.name}",
            "state": link.state,
            "acked": link.ack_offset,
            "lag_bytes": link.lag_bytes,
            "lag": size_text(link.lag_bytes),
            "seconds": lag_text(self._seconds_behind(link)),
            "rate": f"{size_text(link.sent_per_second)}/s",
        }

    def _own_link(self, role: SlaveRole) -> dict[str, Any]:
        status, watch = role.ha_client.status(), self._watch
        known = watch.master_end >= 0
        return {
            "master": status.master_address or "unknown",
            "state": status.state,
            "problem": status.problem,
            "acked": status.reported_offset,
            "lag_bytes": watch.lag_bytes,
            "lag": size_text(watch.lag_bytes) if known else "unknown",
            "seconds": lag_text(watch.lag_seconds) if known else "unknown",
            "rate": f"{size_text(status.received_per_second)}/s",
        }

    def charts(self) -> list[dict[str, Any]]:
        """The last hour."""
        moments, now = self.hour.moments, self._clock.seconds()
        stages = list(self._stages())

        def line(figure: Callable[[Any], float | None]) -> list[tuple[float, float | None]]:
            return [(moment.at, figure(moment)) for moment in moments]

        charts = [
            Chart(
                "Messages a second",
                lambda value: f"{value:,.0f}/s",
                {"in": line(lambda each: each.rate_in), "out": line(lambda each: each.rate_out)},
            ),
            Chart("Furthest behind", lag_text, {"behind": line(lambda each: each.lag)}, least=LOOK_INTERVAL),
            Chart(
                "99 of 100 puts are through within",
                seconds_text,
                {name: line(lambda each, name=name: each.stages.get(name)) for name in stages},  # type: ignore[misc]
            ),
        ]
        return [
            {
                "title": chart.title,
                "svg": drawn(chart, now),
                "most": _most(chart),
                "names": list(chart.lines),
                "from": f"{span_of(chart, now) / 60:.0f} min ago",
            }
            for chart in charts
        ]


def _member(view: View, broker: BrokerFigures) -> dict[str, Any]:
    state, mood = state_of(view, broker)
    growth = view.growth(broker)
    return {
        "id": broker.id,
        "role": broker.role or ("MASTER" if broker.is_master else "SLAVE"),
        "address": broker.address,
        "make": make_of(broker),
        "state": state,
        "mood": mood.value,
        "log_end": broker.log_end,
        "rate": "" if growth is None else f"{size_text(growth)}/s",
        "disk": "" if broker.disk_used is None else f"{broker.disk_used:.0%}",
    }


def _most(chart: Chart) -> str:
    figures = [figure for line in chart.lines.values() for _, figure in line if figure is not None]
    if not figures:
        return "nothing yet"
    text = chart.unit(max(figures))
    return text if text.startswith("less") else f"at most {text}"


def text_of_time(seconds: float) -> str:
    """As a person reads it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def size_text(size: float) -> str:
    """Bytes in their unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def lag_text(seconds: float) -> str:
    """How late; ends of logs are looked at once a second."""
    return seconds_text(seconds) if seconds >= LOOK_INTERVAL or seconds <= 0 else "less than 1 s"


def seconds_text(seconds: float) -> str:
    """A time in its unit."""
    if seconds <= 0:
        return "0 s"
    if seconds < 0.001:
        return f"{seconds * 1e6:,.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:,.1f} ms"
    return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
