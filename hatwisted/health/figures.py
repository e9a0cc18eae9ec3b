"""What a cluster's name servers and brokers say, as values: a `Look` at one moment, and two of them as a `View`.

A broker's figures come from its runtime info (28), its configuration (26) and its HA status (907). RocketMQ 4.9.7
has no 907 and some brokers refuse 26 to whom they don't know: whatever is missing is None, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hatwisted.health import javatext

MASTER_ID: Final = 0


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker answered, as it came, and `at`, seconds since the epoch by our clock.

    - error: why there is no answer; None: there is one
    - runtime: of 28
    - config: of 26; None: not told
    - ha: of 907; None: it doesn't know the request
    """

    at: float
    error: str | None = None
    runtime: Mapping[str, Any] = {}
    config: Mapping[str, str] | None = None
    ha: Mapping[str, Any] | None = None


class BrokerFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker at one moment; offsets in bytes of its log, times in seconds since the epoch."""

    group: str
    id: int
    address: str
    at: float
    error: str | None = None
    version: str | None = None
    """RocketMQ's, or the one that it does as."""
    hatwisted: str | None = None
    """Ours, of one of ours."""
    role: str | None = None
    log_begin: int | None = None
    log_end: int | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    disk_used: float | None = None
    """Share of the disk, 0 to 1."""
    disk_free: int | None = None
    disk_limit: float | None = None
    """From here on it deletes old files; see diskMaxUsedSpaceRatio."""
    flush_lag: int | None = None
    dispatch_lag: int | None = None
    booted: float | None = None
    clock: float | None = None
    """Its own clock's time, to a second."""
    writable: bool | None = None
    audit_differences: int | None = None
    slave_missed: int | None = None
    """Puts so far that no slave had in time."""
    state: str | None = None
    """Of its link to its master, on a slave that says so."""
    problem: str | None = None
    last_heard: float | None = None
    slaves: dict[str, float] | None = None
    """On a master that says so: (address of a slave's connection, when it last reported)."""

    @property
    def is_master(self) -> bool:
        """By the id that the name servers have."""
        return self.id == MASTER_ID


def broker_figures(group: str, number: int, address: str, answers: Answers) -> BrokerFigures:
    """What a broker's answers say.

    - group: its broker name
    - number: its id
    - address: where it was asked
    - answers: what it said
    """
    if answers.error is not None:
        return BrokerFigures(group=group, id=number, address=address, at=answers.at, error=answers.error)
    said, config = answers.runtime, answers.config or {}
    client = _table((answers.ha or {}).get("haClientRuntimeInfo"))
    on_slave = number != MASTER_ID
    disk = javatext.capacity(said.get("commitLogDirCapacity"))
    permission = javatext.whole(config.get("brokerPermission"))
    taken = said.get("getTransferredTps", said.get("getTransferedTps"))
    limit = javatext.whole(config.get("diskMaxUsedSpaceRatio"))
    boot = javatext.whole(said.get("bootTimestamp"))
    heard = javatext.whole(client.get("lastReadTimestamp")) or 0
    return BrokerFigures(
        group=group,
        id=number,
        address=address,
        at=answers.at,
        version=str(said.get("brokerVersionDesc", "")) or None,
        hatwisted=str(said.get("hatwistedVersion", "")) or None,
        role=config.get("brokerRole"),
        log_begin=javatext.whole(said.get("commitLogMinOffset")),
        log_end=javatext.whole(said.get("commitLogMaxOffset")),
        put_tps=javatext.rate(said.get("putTps")),
        get_tps=javatext.rate(taken),
        disk_used=javatext.ratio(said.get("commitLogDiskRatio")),
        disk_free=None if disk is None else disk[1],
        disk_limit=None if limit is None else limit / 100,
        flush_lag=javatext.size(said.get("remainHowManyDataToFlush")),
        dispatch_lag=javatext.whole(said.get("dispatchBehindBytes")),
        booted=None if boot is None else boot / 1000,
        clock=javatext.clock(said),
        writable=None if permission is None else bool(permission & 2),
        audit_differences=javatext.whole(said.get("haAuditDifferences")),
        slave_missed=_missed(said),
        state=str(client["state"]) if on_slave and client.get("state") else None,
        problem=str(client["problem"]) if on_slave and client.get("problem") else None,
        last_heard=heard / 1000 if on_slave and heard else None,
        slaves=None if on_slave or answers.ha is None else _slaves(answers.ha),
    )


def _missed(said: Mapping[str, Any]) -> int | None:
    names = ("putMessageFlushSlaveTimeoutTimes", "putMessageSlaveNotAvailableTimes")
    counts = [javatext.whole(said.get(name)) for name in names]
    return None if None in counts else sum(each or 0 for each in counts)


def _slaves(ha: Mapping[str, Any]) -> dict[str, float]:
    links = ha.get("haConnectionInfo")
    return {
        str(link.get("addr", "")): (javatext.whole(link.get("lastReadTimestamp")) or 0) / 1000
        for link in map(_table, links if isinstance(links, list) else ())
    }


def _table(value: object) -> Mapping[str, Any]:
    """Empty for what isn't one: who can register can answer what he likes, and mustn't hide the others."""
    return value if isinstance(value, Mapping) else {}


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A consumer group: messages behind in all its queues, and how many members are connected."""

    name: str
    behind: int
    members: int | None = None


class Look(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A cluster at one moment.

    - name_servers: address -> what is wrong with it, None: it answers
    - members: by name server: its brokers as "group/id address"
    - brokers: by group and id, slaves asked before their masters
    - groups: consumer groups, those most behind first
    - groups_not_asked: how many more there are
    """

    at: float
    name_servers: dict[str, str | None]
    members: dict[str, frozenset[str]] = {}
    brokers: list[BrokerFigures] = []
    groups: list[GroupProgress] = []
    groups_not_asked: int = 0


class Lag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a slave is behind its master.

    - bytes: now
    - seconds: about how old the newest byte is that it has; None: not known
    - rate: bytes a second that it has taken of late
    - to_level: seconds until it has all; None: never, at this rate
    """

    bytes: int
    seconds: float | None
    rate: float
    to_level: float | None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Two looks, the earlier one first: what moves shows between them.

    left: brokers that an earlier look has found, and that no name server knows now.
    """

    before: Look
    now: Look
    left: list[BrokerFigures] = []

    def broker(self, look: Look, group: str, number: int) -> BrokerFigures | None:
        """Of one look.

        - look: which
        - group: its broker name
        - number: its id
        """
        found = (each for each in look.brokers if each.group == group and each.id == number)
        return next(found, None)

    def growth(self, broker: BrokerFigures) -> float | None:
        """Bytes a second by which its log has grown."""
        earlier = self.broker(self.before, broker.group, broker.id)
        if earlier is None or earlier.log_end is None or broker.log_end is None or broker.at <= earlier.at:
            return None
        return max(0, broker.log_end - earlier.log_end) / (broker.at - earlier.at)

    def lag(self, slave: BrokerFigures) -> Lag | None:
        """Of a slave whose master answers, too."""
        master = self.broker(self.now, slave.group, MASTER_ID)
        if slave.is_master or master is None or master.log_end is None or slave.log_end is None:
            return None
        behind = max(0, master.log_end - slave.log_end)
        taken, put = self.growth(slave) or 0.0, self.growth(master) or 0.0
        gain = taken - put
        return Lag(
            bytes=behind,
            seconds=self._age(slave, master, behind, put),
            rate=taken,
            to_level=0.0 if not behind else behind / gain if gain > 0 else None,
        )

    def _age(self, slave: BrokerFigures, master: BrokerFigures, behind: int, put: float) -> float | None:
        """Once a slave's end was the master's: no longer ago than the earlier look if it has passed that, else
        as long as the master needs for the difference."""
        earlier = self.broker(self.before, master.group, MASTER_ID)
        if not behind:
            return 0.0
        if earlier is None or earlier.log_end is None or slave.log_end is None:
            return None
        if slave.log_end >= earlier.log_end:
            grown = max(1, (master.log_end or 0) - earlier.log_end)
            return (master.at - earlier.at) * behind / grown
        return behind / put if put > 0 else None
