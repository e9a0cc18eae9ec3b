"""Consumer groups' settings: `config/subscriptionGroup.json`.

A group comes into being when its first consumer shows up (autoCreateSubscriptionGroup) or by an operator. A
slave takes over its master's table as a whole; for a group it hasn't heard of yet it goes by the defaults
without keeping them, so that its table stays the master's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.role import Role
from hatwisted.broker.tabletext import KeptBody, TableText
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire.consumerdata import TOOLS_GROUP
from hatwisted.wire.registration import DataVersion, decode_body, encode_body

FIRST_GROUPS = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
"""Groups that every broker has."""

_SYSTEM_PREFIX = "CID_RMQ_SYS_"

MAX_GROUP_LENGTH = 255
"""Characters of a group's name; longer ones get no settings (RocketMQ's clients allow 120)."""

MAX_GROUPS = 10_000
"""From so many on none is made on demand any more, or clients with made-up names would fill the table, its file
and what slaves are sent. Operators may make more."""


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group's settings. `which_broker_when_consume_slowly`: the broker id to read from when far
    behind. Fields without a value are 5.x's: nothing here uses them, they are kept for those that do."""

    attributes: dict[str, str] | UnsetType | None = UNSET
    broker_id: int = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool | UnsetType = UNSET
    consume_timeout_minute: int | UnsetType = UNSET
    group_name: str
    group_retry_policy: Any | UnsetType = UNSET
    group_sys_flag: int | UnsetType = UNSET
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    subscription_data_set: Any | UnsetType = UNSET
    which_broker_when_consume_slowly: int = 1


class GroupTable(msgspec.Struct, kw_only=True, rename="camel"):
    """All groups and their version: answer of code 201, content of subscriptionGroup.json. forbidden_table:
    5.x's."""

    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, Any] | UnsetType = UNSET
    subscription_group_table: dict[str, GroupConfig] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError for a group under another name."""
        for name, group in self.subscription_group_table.items():
            if name != group.group_name:
                raise ValueError(f"the group {group.group_name[:80]!r} stands under {name[:80]!r}")


class SubscriptionGroupTable:
    """All groups' settings.

    - clock: dates the versions
    - role: a slave makes no group on demand
    - auto_create: is an unknown group made on demand at present?
    """

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, role: Role, auto_create: Callable[[], bool] = lambda: True
    ) -> None:
        self._clock = clock
        self._auto_create = auto_create
        self._role = role
        self._groups = {name: GroupConfig(group_name=name) for name in FIRST_GROUPS}
        self._forbidden: dict[str, Any] | UnsetType = UNSET
        self._listeners: list[Callable[[], None]] = []
        self._full = LogThrottle(clock)
        self._text = TableText("subscriptionGroupTable")
        self._body = KeptBody(lambda: encode_body(self.table()))
        self.version = DataVersion(timestamp=self._now())

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def get(self, name: str) -> GroupConfig | None:
        """The group's settings, if it's there."""
        return self._groups.get(name)

    def find(self, name: str) -> GroupConfig | None:
        """The group's settings, made on demand; None if it may not be made."""
        config = self._groups.get(name)
        if config is not None:
            return config
        allowed = self._auto_create() or name.startswith(_SYSTEM_PREFIX)
        if not allowed or not 0 < len(name) <= MAX_GROUP_LENGTH or not name.isprintable():
            return None
        if len(self._groups) >= MAX_GROUPS:
            if (left_out := self._full.admit("")) is not None:
                self._log.warn(
                    "there are {count} consumer groups already: {group} isn't created on demand; delete some, or "
                    "create it with updateSubGroup{more}",
                    count=len(self._groups),
                    group=name,
                    more=more_like_it(left_out),
                )
            return None
        config = GroupConfig(group_name=name)
        if not self._role.slave:
            self.put(config)
        return config

    def put(self, config: GroupConfig) -> None:
        """Make or change a group."""
        self._groups[config.group_name] = config
        self._log.info("consumer group {group} created or changed", group=config.group_name)
        self.version = self.version.following(self._now())
        self._notify()

    def delete(self, name: str) -> None:
        """Forget a group's settings; that it's unknown is no error."""
        if self._groups.pop(name, None) is not None:
            self._log.info("consumer group {group} deleted", group=name)
            self.version = self.version.following(self._now())
            self._notify()

    def made(self) -> Iterator[str]:
        """Names of those that operators or clients have made."""
        return (name for name in self._groups if name not in FIRST_GROUPS)

    def known(self) -> Mapping[str, GroupConfig]:
        """All of them, by name; not a copy."""
        return self._groups

    def replace(self, table: GroupTable) -> bool:
        """Take over the master's table, deletions included. True if it differs from the one held."""
        if table.data_version == self.version:
            return False
        self._groups = dict(table.subscription_group_table)
        self._forbidden = table.forbidden_table
        self.version = table.data_version
        self._notify()
        return True

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    def _now(self) -> int:
        return int(self._clock.seconds() * 1000)

    def table(self) -> GroupTable:
        """All groups and their version."""
        return GroupTable(
            data_version=self.version,
            forbidden_table=self._forbidden,
            subscription_group_table=dict(self._groups),
        )

    def encode(self) -> bytes:
        """The content of subscriptionGroup.json."""
        return self._text.text(
            msgspec.structs.replace(self.table(), subscription_group_table={}), self._groups
        )

    def encode_compact(self) -> bytes:
        """The answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
        return self._body.of(self.version)

    def decode(self, data: bytes) -> None:
        """Take over subscriptionGroup.json: its groups join those every broker has. Raises ValueError."""
        table = decode_body(data, GroupTable)
        self._groups.update(table.subscription_group_table)
        self._forbidden = table.forbidden_table
        self.version = table.data_version
