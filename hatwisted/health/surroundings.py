"""Can a broker run here? From facts about its host to checks, each fine or with what to do about it. No I/O.

A PROBLEM keeps the broker from starting, or from keeping its promises; a NOTE will, sooner or later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from hatwisted.health.judgement import CLOCK_OFF, DISK_REFUSES, Weight

FEW_DESCRIPTORS: Final = 4096
"""Below it there is hardly room for the files of a store beside some clients."""
ENOUGH_DESCRIPTORS: Final = 65536
"""What RocketMQ's own documents ask for."""
FILES_AHEAD: Final = 3
"""Log files that must fit: the present one, the next, which is prepared, and one of queues and index."""
EXPIRES_SOON: Final = 30 * 86400.0
"""Seconds; as the log warns."""
NO_DISKS: Final = {
    "tmpfs": "is memory: what is stored there is gone at the next boot",
    "ramfs": "is memory: what is stored there is gone at the next boot",
    "nfs": "is a network's: a sync there isn't one, and two hosts could open the store at once",
    "nfs4": "is a network's: a sync there isn't one, and two hosts could open the store at once",
    "cifs": "is a network's: a sync there isn't one, and two hosts could open the store at once",
}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One look. name: stable, for programs; weight None: fine."""

    name: str
    what: str
    weight: Weight | None = None
    advice: str = ""


def fine(name: str, what: str) -> Check:
    """Nothing to do."""
    return Check(name=name, what=what)


def note(name: str, what: str, advice: str) -> Check:
    """Worth knowing.

    - name: of the check
    - what: is so
    - advice: what to do
    """
    return Check(name=name, what=what, weight=Weight.NOTE, advice=advice)


def problem(name: str, what: str, advice: str) -> Check:
    """Needs somebody.

    - name: of the check
    - what: is so
    - advice: what to do
    """
    return Check(name=name, what=what, weight=Weight.PROBLEM, advice=advice)


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """Of a store.

    - folder: the store's
    - writable: by this user, it or the folder that it would be made in
    - total, free: bytes
    - kind: of its file system
    - file_size: of a log file
    - limit: share of the disk from which on old files are deleted
    """

    folder: str
    writable: bool
    total: int
    free: int
    kind: str
    file_size: int
    limit: float


def of_disk(disk: Disk) -> Iterator[Check]:
    """Room, kind, permission."""
    if not disk.writable:
        yield problem(
            "disk", f"{disk.folder} can't be written by this user", "chown it, or set storePathRootDir"
        )
        return
    if said := NO_DISKS.get(disk.kind):
        yield problem(
            "file-system", f"{disk.folder} {said}", "set storePathRootDir to a folder on a local disk"
        )
    used = 1 - disk.free / max(1, disk.total)
    text = f"{disk.folder}: {_gib(disk.free)} free, {used:.0%} used"
    if disk.free < FILES_AHEAD * disk.file_size:
        needed = _gib(FILES_AHEAD * disk.file_size)
        yield problem(
            "disk",
            text,
            f"free {needed} at least, or set a smaller mappedFileSizeCommitLog on an empty store",
        )
    elif used >= DISK_REFUSES:
        yield problem("disk", text, f"above {DISK_REFUSES:.0%} a broker takes no messages: free space")
    elif used >= disk.limit:
        yield note(
            "disk", text, f"from {disk.limit:.0%} on expired log files are deleted at any hour: free space"
        )
    else:
        yield fine("disk", text)


def of_limits(descriptors: int, file_bytes: int | None, file_size: int) -> Iterator[Check]:
    """What the kernel lets a process have.

    - descriptors: the hard limit, to which a broker raises its own
    - file_bytes: the longest file that it may write; None: any
    - file_size: of a log file
    """
    text = f"{descriptors} descriptors"
    advice = "raise it: LimitNOFILE=65536 in the systemd unit, or nofile in /etc/security/limits.conf"
    if descriptors < FEW_DESCRIPTORS:
        yield problem("descriptors", text, advice)
    elif descriptors < ENOUGH_DESCRIPTORS:
        yield note(
            "descriptors", f"{text}: fewer clients and queues than RocketMQ's documents ask for", advice
        )
    else:
        yield fine("descriptors", text)
    if file_bytes is not None and file_bytes < file_size:
        yield problem(
            "file-length",
            f"a file may have {file_bytes} bytes, and a log file has {file_size}",
            "remove the limit (ulimit -f unlimited; LimitFSIZE=infinity in the systemd unit)",
        )


def of_ports(free: Mapping[int, bool], running: str | None, asked_with: str = "") -> Check:
    """Of the broker.

    - free: each port
    - running: for how long the broker that has them runs; None: it isn't this one, or doesn't tell
    - asked_with: options without which this one wouldn't tell
    """
    named = ", ".join(map(str, free))
    if running is not None:
        return fine("ports", f"{named}: this broker runs, for {running}")
    if taken := ", ".join(str(port) for port, is_free in free.items() if not is_free):
        this = f" if it's this broker, ask with {asked_with}; else" if asked_with else ""
        other = "set another listenPort (its neighbours +1 and -2 count, too)"
        return problem("ports", f"{taken}: in use", f"ss -ltnp shows by whom:{this} end it, or {other}")
    return fine("ports", f"{named} are free")


def of_clock(synchronised: bool | None, offset: float | None) -> Iterator[Check]:
    """This host's. synchronised: by the kernel's word; offset: seconds by which the master's clock is ahead."""
    if offset is not None and abs(offset) > CLOCK_OFF:
        yield problem(
            "clock",
            f"its master's clock is {offset:+.0f} s from this one",
            "run chrony or ntpd on both hosts",
        )
    elif synchronised is False:
        yield note(
            "clock", "isn't synchronised with anything", "run chrony or ntpd: retention and delays go by it"
        )
    else:
        yield fine("clock", "is synchronised" if synchronised else "runs")


def of_certificate(key: str, expires: float, now: float) -> Check:
    """One that is shown to others.

    - key: of the configuration that names it
    - expires: seconds since the epoch
    - now: likewise
    """
    days = (expires - now) / 86400
    if days < 0:
        return problem(
            "certificate",
            f"{key}: expired {-days:.0f} days ago",
            "renew it; the file is read again by itself",
        )
    if expires - now < EXPIRES_SOON:
        return note(
            "certificate", f"{key}: expires in {days:.0f} days", "renew it; the file is read again by itself"
        )
    return fine("certificate", f"{key}: valid for {days:.0f} days")


def of_name_servers(answers: Mapping[str, str | None]) -> Iterator[Check]:
    """Each, and what is wrong with it; None: it answers."""
    for address, error in answers.items():
        if error is None:
            yield fine("name-server", f"{address} answers")
        else:
            yield problem("name-server", error, "start it, open its port, or correct namesrvAddr")


def is_well(checks: Iterable[Check]) -> bool:
    """Is there no problem?"""
    return all(each.weight is not Weight.PROBLEM for each in checks)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
