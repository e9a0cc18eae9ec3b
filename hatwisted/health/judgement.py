"""From a View to findings: what isn't well, in one line, and what to do about it, in another.

A PROBLEM needs somebody now and makes a command end with 1; a NOTE is worth knowing. The thresholds stand here,
each with its reason, so that screen, page and alert say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

import msgspec

from hatwisted.health.events import label
from hatwisted.health.figures import MASTER_ID, BrokerFigures, View

FAR_BEHIND: Final = 256 << 20
"""Bytes a slave may be behind: RocketMQ's haSlaveFallbehindMax, from which on a put doesn't wait for it."""
DISK_LIMIT: Final = 0.75
"""Of a broker that doesn't tell its own (diskMaxUsedSpaceRatio's default): it deletes old files from here on."""
DISK_REFUSES: Final = 0.90
"""RocketMQ's watermark from which on it takes no message."""
MUCH_UNFLUSHED: Final = 256 << 20
"""Bytes that a power cut would take: a second of a fast disk."""
MUCH_UNDISPATCHED: Final = 64 << 20
"""Bytes of messages that are stored, but that no consumer sees yet."""
CLOCK_OFF: Final = 5.0
"""Seconds; brokers tell theirs to a second, and messages carry it."""
GROUP_BEHIND: Final = 10_000
"""Messages; below it a consumer group may just be busy."""
STANDS_STILL: Final = "slave-stands-still"
LATE: Final = 60.0
"""Seconds behind from which on somebody should look: as in the alert rules."""


class Weight(Enum):
    """How much a finding matters."""

    PROBLEM = "problem"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing: how much it matters, a stable name for programs, where, what is so, and what to do."""

    weight: Weight
    name: str
    where: str
    what: str
    advice: str


def _problem(name: str, where: str, what: str, advice: str) -> Finding:
    return Finding(weight=Weight.PROBLEM, name=name, where=where, what=what, advice=advice)


def _note(name: str, where: str, what: str, advice: str) -> Finding:
    return Finding(weight=Weight.NOTE, name=name, where=where, what=what, advice=advice)


def findings(view: View) -> list[Finding]:
    """All, problems first."""
    found = [*_of_name_servers(view), *_of_groups(view), *_of_brokers(view), *_of_consumers(view)]
    return sorted(found, key=lambda each: each.weight is not Weight.PROBLEM)


def _of_name_servers(view: View) -> Iterator[Finding]:
    now = view.now
    for address, error in now.name_servers.items():
        if error is not None:
            advice = "start it (twistd hanamesrv), or take it out of -n and of the brokers' namesrvAddr"
            yield _problem("name-server-silent", f"name server {address}", error, advice)
    every = frozenset().union(*now.members.values())
    for address, members in now.members.items():
        if lacking := sorted(every - members):
            yield _problem(
                "name-servers-differ",
                f"name server {address}",
                f"doesn't know {', '.join(lacking)}, which another one does",
                "name all name servers in each broker's namesrvAddr; brokers register every 30 s",
            )
    if now.members and not now.brokers:
        yield _problem(
            "no-broker",
            "cluster",
            "no broker is registered",
            "start one with namesrvAddr set to these name servers; it registers within 30 s",
        )


def _of_groups(view: View) -> Iterator[Finding]:
    by_group: dict[str, list[BrokerFigures]] = {}
    for broker in view.now.brokers:
        by_group.setdefault(broker.group, []).append(broker)
    for name, brokers in by_group.items():
        master = next((each for each in brokers if each.is_master), None)
        servers = ";".join(view.now.name_servers)
        attach = (
            f"hatwisted attach {servers} {name}" if servers else "start one: haMasterAddress is this HA port"
        )
        if master is None:
            yield _problem(
                "no-master",
                name,
                "has no master: its slaves serve reads, and nothing can be sent to it",
                "start the master again; if it is lost, see docs/operations.md, replacing a master",
            )
        elif master.error is None and _is_alone(master, brokers):
            advice = (
                attach if len(brokers) == 1 else "its slaves are registered and not linked: what do they say?"
            )
            if master.role == "SYNC_MASTER":
                yield _problem(
                    "sync-master-alone",
                    label(master),
                    "is a SYNC_MASTER without a slave: each send is answered SLAVE_NOT_AVAILABLE",
                    advice,
                )
            else:
                yield _note(
                    "no-copy", label(master), "has no slave: its messages are on one disk alone", advice
                )
        for versions in _versions(brokers):
            if len(versions) > 1:
                yield _note(
                    "versions-differ",
                    name,
                    f"runs {' and '.join(sorted(versions))}",
                    "they work together; upgrade slaves first, then the master",
                )


def _versions(brokers: list[BrokerFigures]) -> tuple[set[str], set[str]]:
    """RocketMQ's and ours. One of each in a group isn't a difference that an upgrade would end."""
    theirs = {each.version for each in brokers if each.version and not each.hatwisted}
    return theirs, {f"hatwisted {each.hatwisted}" for each in brokers if each.hatwisted}


def _is_alone(master: BrokerFigures, brokers: list[BrokerFigures]) -> bool:
    """By its own word (907), or, of RocketMQ 4's, by who is registered."""
    return len(brokers) == 1 if master.slaves is None else not master.slaves


def _of_brokers(view: View) -> Iterator[Finding]:
    for gone in view.left:
        yield _problem(
            "broker-left",
            label(gone),
            f"{gone.address} has left: name servers don't know it any more",
            "start it again; if it is meant to be away, look anew",
        )
    for broker in view.now.brokers:
        if broker.error is not None:
            yield _problem(
                "broker-silent",
                label(broker),
                broker.error,
                f"look at the process and its log on {broker.address.rpartition(':')[0]}; "
                "name servers forget it after 120 s",
            )
            continue
        yield from _of_storage(broker)
        if not broker.is_master:
            yield from _of_slave(view, broker)
        elif broker.writable is False:
            yield _note(
                "not-writable",
                label(broker),
                "takes no messages (brokerPermission)",
                "set brokerPermission=6 to let producers send to it again",
            )
        if broker.clock is not None and abs(broker.clock - broker.at) > CLOCK_OFF:
            yield _note(
                "clock-off",
                label(broker),
                f"its clock is {broker.clock - broker.at:+.0f} s from this machine's",
                "run chrony or ntpd on both: times of messages, retention and delays follow the clock",
            )
        earlier = view.broker(view.before, broker.group, broker.id)
        if earlier is None or broker.role != "SYNC_MASTER":
            continue
        missed = (broker.slave_missed or 0) - (earlier.slave_missed or 0)
        if missed > 0:
            yield _problem(
                "puts-miss-slave",
                label(broker),
                f"sends that weren't copied in time: {missed} in {broker.at - earlier.at:.0f} s",
                "look at its slaves below; producers see FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE",
            )


def _of_storage(broker: BrokerFigures) -> Iterator[Finding]:
    used, limit = broker.disk_used, broker.disk_limit or DISK_LIMIT
    if used is not None and used >= DISK_REFUSES:
        yield _problem(
            "disk-full",
            label(broker),
            f"its disk is {used:.0%} full: it takes no messages above {DISK_REFUSES:.0%}",
            "free space or shorten fileReservedTime; expired log files are deleted every 10 s then",
        )
    elif used is not None and used >= limit:
        yield _problem(
            "disk-filling",
            label(broker),
            f"its disk is {used:.0%} full: from {limit:.0%} on it deletes expired log files at any hour",
            "free space or shorten fileReservedTime before it reaches 90 %",
        )
    if (broker.flush_lag or 0) > MUCH_UNFLUSHED:
        yield _problem(
            "flush-behind",
            label(broker),
            f"{broker.flush_lag} bytes aren't on its disk yet",
            "its disk is too slow or failing: look at iostat and dmesg there",
        )
    if (broker.dispatch_lag or 0) > MUCH_UNDISPATCHED:
        yield _problem(
            "dispatch-behind",
            label(broker),
            f"{broker.dispatch_lag} bytes of its log aren't in its queues yet: consumers don't see them",
            "it catches up by itself unless its processor or disk is busy all the time",
        )
    if broker.audit_differences:
        yield _problem(
            "audit-differs",
            label(broker),
            f"{broker.audit_differences} ranges of its log differ from its master's",
            "hatwisted audit shows which; see docs/operations.md, when logs differ",
        )


def _of_slave(view: View, slave: BrokerFigures) -> Iterator[Finding]:
    master = view.broker(view.now, slave.group, MASTER_ID)
    stopped = list(_of_its_link(slave, master))
    yield from stopped
    for each in _of_its_log(view, slave, master):
        # One cause, one finding: why it stands still is said already.
        if not (stopped and each.name == STANDS_STILL):
            yield each


def _of_its_link(slave: BrokerFigures, master: BrokerFigures | None) -> Iterator[Finding]:
    if slave.problem:
        yield _problem(
            "slave-problem",
            label(slave),
            slave.problem,
            "its own log says more; docs/operations.md explains each state of a slave",
        )
    elif slave.state in ("disconnected", "connecting") and master is not None and master.error is None:
        yield _problem(
            "slave-not-linked",
            label(slave),
            f"has no link to its master ({slave.state})",
            "the master's HA port (listenPort + 1) must be reachable from the slave's host",
        )


def _of_its_log(view: View, slave: BrokerFigures, master: BrokerFigures | None) -> Iterator[Finding]:
    if master is None or master.log_end is None or slave.log_end is None:
        return
    if slave.log_end > master.log_end:
        # Slaves are asked before their masters: it can't be the time between the two questions.
        yield _problem(
            "slave-ahead",
            label(slave),
            f"has {slave.log_end - master.log_end} bytes more than its master: the master lost its tail, "
            "or isn't the one it copied",
            "keep the slave's store; decide by hatwisted audit which log is right before either is deleted",
        )
        return
    if slave.log_begin is not None and master.log_begin is not None and slave.log_begin > master.log_begin:
        yield _lacks_begin(slave, slave.log_begin - master.log_begin)
    lag = view.lag(slave)
    if lag is None or not lag.bytes:
        return
    earlier_master = view.broker(view.before, slave.group, MASTER_ID)
    known = earlier_master.log_end if earlier_master is not None else None
    if not lag.rate and known is not None and slave.log_end < known:
        yield _problem(
            STANDS_STILL,
            label(slave),
            f"is {lag.bytes} bytes behind and takes nothing",
            "look at its log; its master's HA port (listenPort + 1) must be reachable from its host",
        )
    elif lag.bytes > FAR_BEHIND:
        yield _problem(
            "slave-far-behind",
            label(slave),
            f"is {lag.bytes} bytes behind its master",
            "it catches up if its rate is above the master's; network and both disks limit it",
        )


def _lacks_begin(slave: BrokerFigures, count: int) -> Finding:
    return _note(
        "slave-lacks-begin",
        label(slave),
        f"lacks the {count} oldest bytes of its master's log: an empty slave starts at the master's last file",
        "for all of it, start a hatwisted slave with haFirstSync=minOffset on an empty store",
    )


def _of_consumers(view: View) -> Iterator[Finding]:
    for group in view.now.groups:
        if group.behind < GROUP_BEHIND:
            continue
        nobody = group.members == 0
        yield _problem(
            "group-behind",
            f"group {group.name}",
            f"is {group.behind:,} messages behind" + (", and nobody reads" if nobody else ""),
            "start its consumers"
            if nobody
            else f"hatwisted group show {group.name}; add consumers, up to one a queue",
        )
