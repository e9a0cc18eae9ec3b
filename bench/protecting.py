"""Rows about protection: what accounts and TLS cost a master, in rate and in processor time for each message.

Both ways of a row are measured in turn, so that what else the machine does falls on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.arena import (
    REWARM_SECONDS,
    SINGLE,
    Arena,
    LoadOptions,
    RowFailed,
    attempt,
    check_answers,
    described,
)
from bench.figures import Outcome, Values, absolute_figure
from testbed.brokergroup import OURS, BrokerGroup, Kind
from testbed.processes import wait_until
from testbed.remotingclient import any_answer

ACL_COST = 10.0  # percent
TLS_COST = 25.0  # percent
LOAD = "4 x 64 in flight"
LINK_SECONDS = 60.0

PRODUCER = ("benchProducer", "secret-of-producer")
BROKERS = ("benchBrokers", "secret-of-brokers")
ACCOUNTS = f"""\
accounts:
- accessKey: {BROKERS[0]}
  secretKey: {BROKERS[1]}
  admin: true
- accessKey: {PRODUCER[0]}
  secretKey: {PRODUCER[1]}
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - bench=PUB
"""

Ways = dict[str, tuple[BrokerGroup, LoadOptions]]
"""What is compared: name -> who is sent to, and how."""


def acl_cost(arena: Arena) -> Outcome:
    """How much slower the first row is with accounts: signed sends to a pair with aclEnable."""
    outcome = Outcome()
    plain: LoadOptions = {**SINGLE, "same-ids": 1}
    signed: LoadOptions = {**SINGLE, "account": ":".join(PRODUCER)}
    rates: dict[str, Values] = {"open": {}, "accounts": {}}
    costs: dict[str, Values] = {"open": {}, "accounts": {}}
    for kind in arena.kinds:
        with (
            attempt(arena, outcome, kind),
            arena.pair(kind, "SYNC_MASTER") as free,
            _pair_with_accounts(arena, kind) as guarded,
        ):
            free.start()
            _start_signed(arena, guarded, signed)
            _measure(arena, kind, {"open": (free, plain), "accounts": (guarded, signed)}, rates, costs)
    tell(outcome, "accounts", rates, costs, ACL_COST)
    return outcome


def tls_cost(arena: Arena) -> Outcome:
    """How much slower the first row is over TLS, to one and the same port."""
    outcome = Outcome()
    rates: dict[str, Values] = {"open": {}, "TLS": {}}
    costs: dict[str, Values] = {"open": {}, "TLS": {}}
    if OURS in arena.kinds:  # RocketMQ's port is plain here
        with attempt(arena, outcome, OURS), arena.pair(OURS, "SYNC_MASTER") as group:
            group.start()
            ways: Ways = {"open": (group, SINGLE), "TLS": (group, {**SINGLE, "tls": 1})}
            _measure(arena, OURS, ways, rates, costs)
    tell(outcome, "TLS", rates, costs, TLS_COST)
    return outcome


@contextmanager
def _pair_with_accounts(arena: Arena, kind: Kind) -> Iterator[BrokerGroup]:
    with arena.pair(kind, "SYNC_MASTER", {"aclEnable": True}) as group:
        accounts = _account_file(group.folder)
        if kind is OURS:
            credentials = group.folder / "tools.yml"
            credentials.write_text(f"accessKey: {BROKERS[0]}\nsecretKey: {BROKERS[1]}\n")
            group.settings = {**group.settings, "aclPlainFile": accounts}
            group.slave_settings = {"credentialsFile": credentials}
        yield group


def _account_file(folder: Path) -> Path:
    """Where RocketMQ's brokers look for it as well."""
    path = folder / "master-home" / "conf" / "plain_acl.yml"
    for home in ("master-home", "slave-home"):
        place = folder / home / "conf" / "plain_acl.yml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(ACCOUNTS)
    return path


def _start_signed(arena: Arena, group: BrokerGroup, signed: LoadOptions) -> None:
    """A pair that answers only who has an account."""
    for broker in (group.master, group.slave):
        broker.probe = any_answer
        broker.start()

    def linked() -> bool:
        one = {**signed, "connections": 1, "window": 1, "requests": 1}
        return set(arena.load(group.master_port, one, seconds=1, quiet=True)["codes"]) == {"0"}

    wait_until(linked, LINK_SECONDS, "a signed send reaches the slave")


def _measure(
    arena: Arena, kind: Kind, ways: Ways, rates: dict[str, Values], costs: dict[str, Values]
) -> None:
    """Warm each, then measure in turn.

    - arena, kind: where, and whose
    - ways: what is compared
    - rates: messages a second, added to
    - costs: µs of a master's processor time a message, added to
    """
    for name, (group, options) in ways.items():
        arena.say(f"warming {kind.value}, {name}")
        arena.load(group.master_port, options, warm=arena.warm_seconds(kind), quiet=True)
    for number in range(arena.repeats):
        for name, (group, options) in ways.items():
            begun = group.master.cpu_seconds()
            result = arena.load(
                group.master_port,
                options,
                warm=(REWARM_SECONDS, 0),
                seconds=arena.measure_seconds,
                quiet=True,
            )
            check_answers(result)
            cost = (group.master.cpu_seconds() - begun) / sum(result["rates"]) * 1e6
            arena.say(f"{kind.value}, {name} {number + 1}: {described(result)}, {cost:.1f} µs a message")
            rates[name].setdefault(kind, []).append(float(result["rate"]))
            costs[name].setdefault(kind, []).append(cost)


def tell(
    outcome: Outcome, way: str, rates: dict[str, Values], costs: dict[str, Values], limit: float
) -> None:
    """The figures of a row.

    - outcome: added to
    - way: the protection; the other is "open"
    - rates, costs: as measured
    - limit: percent that it may cost
    """
    for name in rates:
        label = f"send, SYNC_MASTER, {LOAD}, {name}"
        outcome.figures.append(absolute_figure(label, "msgs/s", rates[name], "–"))
        label = f"the same: processor time of the master, {name}"
        outcome.figures.append(absolute_figure(label, "µs a message", costs[name], "–", digits=1))
    losses = {
        kind: [100 * (1 - slow / fast) for slow, fast in zip(rates[way].get(kind, []), each, strict=False)]
        for kind, each in rates["open"].items()
    }
    if not losses:
        raise RowFailed("nothing was measured")
    text = f"≤ {limit:g} % below open"
    outcome.figures.append(
        absolute_figure(f"cost of {way}, SYNC_MASTER, {LOAD}", "%", losses, text, at_most=limit, digits=1)
    )
