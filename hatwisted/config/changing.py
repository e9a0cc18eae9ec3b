"""When a change of a key takes effect, and which keys no request may change."""

from __future__ import annotations

from enum import Enum
from typing import Final

from hatwisted.config.load import schema_fields
from hatwisted.config.rocketmqkeys import ACCESS_KEYS
from hatwisted.config.tlskeys import LinkTlsKeys, TlsKeys

FIXED: Final = (
    frozenset(
        """
    brokerClusterName brokerName brokerId brokerRole brokerIP1 brokerIP2 bindAddress listenPort
    brokerConfigPath storePathRootDir storePathCommitLog mappedFileSizeCommitLog mappedFileSizeConsumeQueue
    maxHashSlotNum maxIndexNum
    """.split()
    )
    | ACCESS_KEYS
    | {field.encode_name for field in schema_fields(LinkTlsKeys)}
)
"""These change only by editing a broker's file and restarting it: they say who it is, who is let in, and how its
store is laid out."""

EFFECTIVE: Final = frozenset(
    """
    brokerPermission autoCreateTopicEnable autoCreateSubscriptionGroup longPollingEnable shortPollingTimeMills
    slaveReadEnable accessMessageInMemoryMaxRatio deleteWhen fileReservedTime diskMaxUsedSpaceRatio
    cleanFileForciblyEnable
    """.split()
)
"""These take effect at once on a broker; see the LiveConfig's listeners."""

NAMESRV_PATHS: Final = frozenset(("kvConfigPath", "configStorePath"))
"""A client that could change these could have any file written (4.9.7 refuses them)."""

NAMESRV_FIXED: Final = (
    NAMESRV_PATHS
    | ACCESS_KEYS
    | {field.encode_name for field in schema_fields(TlsKeys) if field.encode_name.startswith("tls.")}
)
NAMESRV_EFFECTIVE: Final = frozenset(("orderMessageEnable",))


class Change(Enum):
    """What has to happen for a change to count."""

    AT_ONCE = "at once"
    """By request or, on a broker, by editing the file and SIGHUP."""
    RESTART = "restart"
    """By request or by editing the file; it counts from the next start on."""
    FILE = "file, restart"
    """By editing the file alone."""


RULES: Final = {"broker": (EFFECTIVE, FIXED), "name server": (NAMESRV_EFFECTIVE, NAMESRV_FIXED)}


def change_of(server: str, key: str) -> Change:
    """What a change of `key` takes. server: one of `RULES`."""
    effective, fixed = RULES[server]
    if key in effective:
        return Change.AT_ONCE
    return Change.FILE if key in fixed else Change.RESTART
