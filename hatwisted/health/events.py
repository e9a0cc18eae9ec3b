"""What happened between two looks, in words: who came and left, started again, lost its link, and why."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hatwisted.health.figures import MASTER_ID, BrokerFigures, Look

RESTART_SLACK = 3.0
"""Seconds by which two answers may differ about one start: RocketMQ's clock is told to a second."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One of them. at: seconds since the epoch; name: stable, for programs."""

    at: float
    name: str
    where: str
    what: str


def label(broker: BrokerFigures) -> str:
    """How events and findings name a broker."""
    return f"{broker.group} {'master' if broker.is_master else f'slave {broker.id}'}"


def events(before: Look, now: Look) -> list[Event]:
    """What is different, brokers by name and id."""
    earlier = {(each.group, each.id): each for each in before.brokers}
    later = {(each.group, each.id): each for each in now.brokers}
    found = list(_of_name_servers(before, now))
    for key in sorted(earlier.keys() | later.keys()):
        was, is_ = earlier.get(key), later.get(key)
        if is_ is None and was is not None:
            what = f"{was.address} left: name servers don't know it any more"
            found.append(Event(at=now.at, name="broker-left", where=label(was), what=what))
        elif was is None and is_ is not None:
            what = f"{is_.address} came"
            found.append(Event(at=now.at, name="broker-came", where=label(is_), what=what))
        elif was is not None and is_ is not None:
            found += [
                Event(at=now.at, name=name, where=label(is_), what=what) for name, what in _of(was, is_)
            ]
    return found


def _of_name_servers(before: Look, now: Look) -> Iterator[Event]:
    for address, error in now.name_servers.items():
        if (error is None) == (before.name_servers.get(address) is None):
            continue
        name, what = ("name-server-silent", error) if error else ("name-server-back", "answers again")
        yield Event(at=now.at, name=name, where=f"name server {address}", what=what or "")


def _of(was: BrokerFigures, now: BrokerFigures) -> Iterator[tuple[str, str]]:
    if now.error is not None:
        if was.error is None:
            yield "broker-silent", now.error
        return
    if was.error is not None:
        yield "broker-back", "answers again"
    if was.address != now.address:
        yield "broker-moved", f"is at {now.address} now, was at {was.address}"
    if was.booted is not None and now.booted is not None and now.booted > was.booted + RESTART_SLACK:
        yield "broker-restarted", "was started again"
    if was.log_end is not None and now.log_end is not None and now.log_end < was.log_end:
        yield "log-shorter", f"its log ends {was.log_end - now.log_end} bytes earlier than before"
    if was.state != now.state and now.state is not None and was.state is not None:
        yield "link-changed", f"its link is {now.state}" + (f": {now.problem}" if now.problem else "")
    elif now.problem and now.problem != was.problem:
        yield "link-problem", now.problem
    if now.id == MASTER_ID and was.role != now.role and was.role and now.role:
        yield "role-changed", f"is {now.role} now, was {was.role}"
