"""A whole group for trying out: what each of its three servers is told. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

SMALL: Final[Mapping[str, str]] = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": "300000",
    "maxHashSlotNum": "500000",
    "maxIndexNum": "2000000",
}
"""Files for a machine on which it's tried out; RocketMQ's own take 1 GiB each, from the first message on."""
HOST: Final = "127.0.0.1"
NAME: Final = "broker-a"


class Ports(NamedTuple):
    """listenPort of each."""

    names: int
    master: int
    slave: int


class Member(NamedTuple):
    """One server: its name on the screen, its listenPort, and the words after twistd's own options."""

    name: str
    port: int
    words: list[str]


def members(folder: str, ports: Ports, *, sync: bool) -> list[Member]:
    """In the order of their start.

    - folder: for the stores
    - ports: of the three
    - sync: a send is answered once the slave has it, too
    """
    shared = {
        **SMALL,
        # Somebody's own machine may well be fuller than a broker's.
        "diskMaxUsedSpaceRatio": "95",
        "brokerName": NAME,
        "brokerIP1": HOST,
        "brokerIP2": HOST,
        "bindAddress": HOST,
        "namesrvAddr": f"{HOST}:{ports.names}",
    }
    names = {
        "listenPort": str(ports.names),
        "bindAddress": HOST,
        "kvConfigPath": f"{folder}/namesrv/kvConfig.json",
    }
    master = shared | {
        "listenPort": str(ports.master),
        "brokerRole": "SYNC_MASTER" if sync else "ASYNC_MASTER",
        "storePathRootDir": f"{folder}/master",
    }
    slave = shared | {
        "listenPort": str(ports.slave),
        "storePathRootDir": f"{folder}/slave",
        "haFirstSync": "minOffset",
    }
    return [
        Member("names", ports.names, ["hanamesrv", *_set(names)]),
        Member("master", ports.master, ["hamaster", *_set(master)]),
        Member("slave", ports.slave, ["haslave", *_set(slave)]),
    ]


def _set(settings: Mapping[str, str]) -> list[str]:
    return [f"--set={key}={value}" for key, value in settings.items()]
