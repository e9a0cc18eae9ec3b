"""Rows about protection: what accounts and TLS cost a master, in rate and in processor time for each message."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bench import catchup
from bench.arena import SINGLE, Arena, LoadOptions, RowFailed, attempt
from bench.figures import Outcome, absolute_figure
from bench.ways import Comparison, Ways
from hatwisted.tls.certificates import self_signed
from testbed.brokergroup import OURS, BrokerGroup, Kind
from testbed.processes import Setting, wait_until
from testbed.remotingclient import any_answer

ACL_COST = 10.0  # percent
TLS_COST = 25.0  # percent
LOAD = "SYNC_MASTER, 4 x 64 in flight"
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


def acl_cost(arena: Arena) -> Outcome:
    """How much slower the first row is with accounts: signed sends to a pair with aclEnable."""
    outcome = Outcome()
    plain: LoadOptions = {**SINGLE, "same-ids": 1}
    signed: LoadOptions = {**SINGLE, "account": ":".join(PRODUCER)}
    found = Comparison("open", "accounts")
    for kind in arena.kinds:
        with (
            attempt(arena, outcome, kind),
            arena.pair(kind, "SYNC_MASTER") as free,
            _pair_with_accounts(arena, kind) as guarded,
        ):
            free.start()
            _start_signed(arena, guarded, signed)
            found.run(arena, kind, {"open": (free, plain), "accounts": (guarded, signed)})
    found.tell(outcome, LOAD, ACL_COST)
    return outcome


def tls_cost(arena: Arena) -> Outcome:
    """How much slower the first row is over TLS, to one and the same port."""
    outcome = Outcome()
    found = Comparison("open", "TLS")
    if OURS in arena.kinds:  # RocketMQ's port is plain here
        with attempt(arena, outcome, OURS), arena.pair(OURS, "SYNC_MASTER") as group:
            group.start()
            ways: Ways = {"open": (group, SINGLE), "TLS": (group, {**SINGLE, "tls": 1})}
            found.run(arena, OURS, ways)
    found.tell(outcome, LOAD, TLS_COST)
    return outcome


def ha_tls_cost(arena: Arena) -> Outcome:
    """How fast a slave catches up over a link with TLS and certificates on both ends, and over a plain one."""
    outcome = Outcome()
    rates: dict[str, list[float]] = {"plain": [], "TLS": []}
    if OURS not in arena.kinds:
        raise RowFailed("RocketMQ's HA link has no TLS")
    with (
        attempt(arena, outcome, OURS),
        arena.pair(OURS, "ASYNC_MASTER") as plain,
        arena.pair(OURS, "ASYNC_MASTER", {"haTlsEnable": True}) as encrypted,
    ):
        encrypted.settings = {**encrypted.settings, **_link_certificate(encrypted.folder)}
        links = {"plain": plain, "TLS": encrypted}
        for group in links.values():
            catchup.prepare(arena, group)
        for number in range(arena.repeats):
            for name, group in links.items():
                rates[name].append(catchup.one_catch_up(arena, group).rate)
                arena.say(f"{name} {number + 1}: {rates[name][-1]:,.0f} MB/s")
    size = f"{arena.full_store / (1 << 30):.1f} GiB"
    for name, each in rates.items():
        label = f"slave catch-up of {size}, {name} link"
        outcome.figures.append(absolute_figure(label, "MB/s", {OURS: each}, "–"))
    losses = {OURS: [100 * (1 - tls / free) for tls, free in zip(rates["TLS"], rates["plain"], strict=True)]}
    outcome.figures.append(absolute_figure("cost of TLS on the HA link", "%", losses, "–", digits=1))
    return outcome


def _link_certificate(folder: Path) -> dict[str, Setting]:
    """One for both ends, which trust it and no other."""
    folder.mkdir(parents=True, exist_ok=True)
    identity = self_signed("bench", time.time())
    certificate, key = folder / "link.pem", folder / "link.key"
    certificate.write_bytes(identity.chain[0].public_bytes(Encoding.PEM))
    key.write_bytes(identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return {"haTlsCertPath": certificate, "haTlsKeyPath": key, "haTlsTrustCertPath": certificate}


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
