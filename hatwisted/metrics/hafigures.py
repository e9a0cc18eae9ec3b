"""Figures of replication: what a master knows of its slaves, and a slave of itself and its master."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from twisted.internet.interfaces import IReactorTime

from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.ha.master import HAService
from hatwisted.ha.slaveprogress import REFUSED, LinkState, SlaveStatus
from hatwisted.ha.slavestate import SlaveState
from hatwisted.metrics.families import Figures, counter, gauge, labelled
from hatwisted.metrics.linkwatch import LinkWatch


class MasterFigures:
    """A source: links of slaves to this broker.

    - ha: its accept side
    - watch: knows when the log was how long
    - clock: the node's
    """

    def __init__(self, ha: HAService, watch: LinkWatch, clock: IReactorTime) -> None:
        self._ha = ha
        self._watch = watch
        self._clock = clock

    def __call__(self) -> Figures:
        """See families.Source."""
        ha = self._ha
        links = ha.status()
        states = Counter(link.state for link in links)
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_ha_links",
            "Connections to the HA port, by state.",
            ["state"],
            [([state.value], states[state.value]) for state in LinkState if state is not LinkState.CLOSED],
        )
        yield gauge("hatwisted_ha_slaves", "Slaves that copy the log.", len(ha.slave_hosts()))
        yield gauge(
            "hatwisted_ha_copies_in_sync", "Copies in sync, the master's included.", ha.in_sync_count()
        )
        yield gauge(
            "hatwisted_ha_copies_needed",
            "Copies in sync below which puts that wait are refused.",
            ha.settings.copies_needed,
        )
        yield from self._of_links([link for link in links if link.ack_offset >= 0])
        yield from self._totals()

    def _of_links(self, links: Sequence[SlaveStatus]) -> Figures:
        now, own = self._clock.seconds(), self._watch.own
        columns: tuple[tuple[str, str, Callable[[SlaveStatus], float]], ...] = (
            ("live", "1 if the slave is handed each append, 0 while it catches up.", _is_live),
            ("sent_offset", "The slave was sent the log up to here.", lambda link: link.sent_offset),
            ("acked_offset", "The slave has acknowledged the log up to here.", lambda link: link.ack_offset),
            ("lag_bytes", "Bytes that the slave hasn't acknowledged yet.", lambda link: link.lag_bytes),
            (
                "lag_seconds",
                "Seconds since the log ended where the slave has come to.",
                lambda link: own.behind(link.ack_offset, now) if link.lag_bytes else 0.0,
            ),
            ("sent_bytes_per_second", "Bytes of the last second.", lambda link: link.sent_per_second),
            ("state_seconds", "Seconds in its present state.", lambda link: now - link.since),
            ("silent_seconds", "Seconds since its last word.", lambda link: now - link.last_report),
        )
        for name, help_text, figure in columns:
            yield labelled(
                GaugeMetricFamily,
                f"hatwisted_ha_link_{name}",
                help_text,
                ["slave"],
                [([link.address], figure(link)) for link in links],
            )

        yield labelled(
            GaugeMetricFamily,
            "hatwisted_ha_link_info",
            "1; whom the slave's certificate names, with haTlsEnable.",
            ["slave", "certificate"],
            [([link.address, link.name or ""], 1) for link in links],
        )

    def _totals(self) -> Figures:
        ha = self._ha
        yield labelled(
            CounterMetricFamily,
            "hatwisted_ha_refused_reports_total",
            "First reports that were refused: the log doesn't hold their offset.",
            ["reason"],
            [
                ([state.value], ha.complaints.reports[state.value])
                for state in sorted(REFUSED, key=lambda each: each.value)
            ],
        )
        waits = ha.group_transfer
        for name, help_text, total in (
            ("accepted", "Connections accepted.", ha.accepted_total),
            ("unidentified", "Connections that ended without a first report.", ha.unidentified_total),
            ("turned_away", "Connections closed because of haAllowList.", ha.turned_away_total),
            ("complaints", "Faults of peers, logged or not.", ha.complaints.total),
            ("waits_expired", "Waits for a slave that met their time limit.", waits.expired_total),
            ("waits_refused", "Waits for a slave refused, 250,000 were open.", waits.overflow_total),
        ):
            yield counter(f"hatwisted_ha_{name}_total", help_text, total)
        yield gauge("hatwisted_ha_waits", "Waits for a slave, one for each read of puts.", len(waits))
        yield gauge(
            "hatwisted_ha_best_lag_bytes",
            "End of the log minus the highest offset that any slave ever acknowledged.",
            ha.fall_behind,
        )


def _is_live(link: SlaveStatus) -> bool:
    return link.state == LinkState.LIVE.value


class SlaveFigures:
    """A source: this broker's own link to its master.

    - role: None on a master
    - watch: knows how long the master's log is
    - clock: the node's
    """

    def __init__(self, role: Callable[[], SlaveRole | None], watch: LinkWatch, clock: IReactorTime) -> None:
        self._role = role
        self._watch = watch
        self._clock = clock

    def __call__(self) -> Figures:
        """See families.Source."""
        role = self._role()
        if role is None:
            return
        link, now = role.ha_client, self._clock.seconds()
        status = link.status()
        yield labelled(
            GaugeMetricFamily,
            "hatwisted_ha_slave_state",
            "1 for the state that the slave is in.",
            ["state"],
            [([state.value], state.value == status.state) for state in SlaveState],
        )
        yield labelled(
            CounterMetricFamily,
            "hatwisted_ha_slave_link_ends_total",
            "Links to the master that ended or couldn't be made, by reason.",
            ["reason"],
            [([reason], count) for reason, count in sorted(link.link_ends.items())],
        )
        yield counter("hatwisted_ha_slave_connects_total", "Links to the master made.", link.connects_total)
        for name, help_text, figure in (
            ("state_seconds", "Seconds in its present state.", now - status.since),
            ("reported_offset", "Newest acknowledgement, -1 without a link.", status.reported_offset),
            ("received_bytes_per_second", "Bytes of the last second.", status.received_per_second),
            ("suspect", "1 if the log was once ahead of its master's.", status.suspect_from is not None),
        ):
            yield gauge(f"hatwisted_ha_slave_{name}", help_text, figure)
        yield from self._behind()
        synced = role.synchronizer.synced_at
        if synced is not None:
            yield gauge(
                "hatwisted_ha_slave_tables_age_seconds",
                "Seconds since topics, groups and progress were last copied from the master.",
                now - synced,
            )

    def _behind(self) -> Iterator[Metric]:
        """Only while the master says how long its log is: a lag of nothing known would look like none."""
        watch = self._watch
        if watch.master_end < 0:
            return
        yield gauge(
            "hatwisted_ha_slave_master_end_offset", "End of the master's log, as it said.", watch.master_end
        )
        yield gauge("hatwisted_ha_slave_lag_bytes", "Bytes behind the master's log.", watch.lag_bytes)
        yield gauge("hatwisted_ha_slave_lag_seconds", "The same in seconds.", watch.lag_seconds)
