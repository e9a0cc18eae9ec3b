"""What brokers and name servers exchange: topic tables, registrations, routes, cluster members.

Field names on the wire are RocketMQ's; the structs carry them in Python's spelling, in the alphabetical order
fastjson writes. Reading accepts the dialect (bare integer keys, numbers as text) and unknown fields, because
5.x adds some; writing is standard JSON with quoted integer keys, which every version reads.

How the body of a registration is written and read is in `registerbody`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from hatwisted.wire import fastjson
from hatwisted.wire.requestheader import Int32, Int64

SINGLE_TAG: Final = "SINGLE_TAG"
MULTI_TAG: Final = "MULTI_TAG"
"""A topic's filter types; nothing depends on them."""
_T = TypeVar("_T")

MASTER_ID: Final = 0
"""Broker id of a group's master; slaves have higher ones."""

PERM_INHERIT: Final = 1
PERM_WRITE: Final = 2
PERM_READ: Final = 4
"""Bits of a topic's or a broker's `perm`."""

UNIT: Final = 1
UNIT_SUBSCRIPTION: Final = 2
"""Bits of a topic's sysFlag."""


MAX_QUEUE_IDS: Final = 1 << 16
"""Queue ids are below this; no topic has as many queues at a broker, and progress kept under a wrong one would
stay for ever."""

QueueCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_QUEUE_IDS)]
"""Clients make an object of each."""


class BadRegistration(ValueError):
    """The peer's body isn't what its code says, or its checksum is wrong."""


class DataVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Compared as a whole; changes whenever the table it belongs to does. `timestamp` in ms."""

    counter: Int64 = 0
    state_version: Int64 | UnsetType = UNSET
    timestamp: Int64 = 0

    def following(self, now_ms: int) -> DataVersion:
        """The version after a change made at `now_ms`."""
        return DataVersion(counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms)


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic of one broker. perm: 4 read, 2 write, 1 inherit. attributes: 5.x; passed on to peers that
    know them."""

    attributes: dict[str, str] | UnsetType | None = UNSET
    order: bool = False
    perm: Int32 = 6
    read_queue_nums: QueueCount = 16
    topic_filter_type: str = SINGLE_TAG
    topic_name: str
    topic_sys_flag: Int32 = 0
    write_queue_nums: QueueCount = 16


class TopicTable(msgspec.Struct, kw_only=True, rename="camel"):
    """A broker's topics and their version: answer of code 21, content of topics.json."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError: what goes by the one name would escape the limits of the other."""
        for name, topic in self.topic_config_table.items():
            if name != topic.topic_name:
                raise ValueError(f"the topic {topic.topic_name[:80]!r} stands under {name[:80]!r}")


class RegisterBody(msgspec.Struct, kw_only=True, rename="camel"):
    """Body of a 103. A registration right after a topic's creation holds only that topic: merge it."""

    filter_server_list: list[str] = msgspec.field(default_factory=list)
    topic_config_serialize_wrapper: TopicTable = msgspec.field(default_factory=TopicTable)


class BrokerData(msgspec.Struct, kw_only=True, rename="camel"):
    """A broker group: broker id -> "host:port"; id 0 is the master."""

    broker_addrs: dict[int, str] = msgspec.field(default_factory=dict)
    broker_name: str
    cluster: str = ""


class MemberGroup(msgspec.Struct, kw_only=True, rename="camel"):
    """One group, if it is known: answer of code 901."""

    broker_member_group: BrokerData | UnsetType = UNSET


class QueueData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many queues of a topic a group has."""

    broker_name: str
    perm: Int32
    read_queue_nums: QueueCount
    topic_sys_flag: Int32 = 0
    write_queue_nums: QueueCount


class TopicRoute(msgspec.Struct, kw_only=True, rename="camel"):
    """Where a topic lives: answer of code 105."""

    broker_datas: list[BrokerData] = msgspec.field(default_factory=list)
    filter_server_table: dict[str, list[str]] = msgspec.field(default_factory=dict)
    order_topic_conf: str | UnsetType | None = UNSET
    queue_datas: list[QueueData] = msgspec.field(default_factory=list)


class ClusterInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """All groups, and which cluster has which: answer of code 106."""

    broker_addr_table: dict[str, BrokerData] = msgspec.field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = msgspec.field(default_factory=dict)


def decode_request(data: bytes, kind: type[_T]) -> _T:
    """As decode_body, of what anybody may have sent.

    A registration has up to 16 MiB. Of plain JSON nothing is made but what belongs there, however much else it
    has, and of its dialects not more is read than of other requests.
    """
    try:
        decoded: _T = decoder(cast(Any, kind))(data)
        return decoded
    except msgspec.ValidationError as error:
        raise BadRegistration(f"not a {kind.__name__}: {error}") from None
    except (ValueError, RecursionError):
        return converted_request(data, kind)


def converted_request(data: bytes, kind: type[_T]) -> _T:
    """The same of what is JSON in one of the dialects."""
    return _converted(data, kind, fastjson.loads_request)


def decode_body(data: bytes, kind: type[_T]) -> _T:
    """A JSON body as one of the structs above; BadRegistration if it can't be one."""
    return _converted(data, kind, fastjson.loads)


def _converted(data: bytes, kind: type[_T], loads: Callable[[bytes], object]) -> _T:
    try:
        return msgspec.convert(loads(data), kind, strict=False, str_keys=True)
    except (fastjson.FastjsonError, msgspec.ValidationError) as error:
        raise BadRegistration(f"not a {kind.__name__}: {error}") from None


@cache
def decoder(kind: type) -> Callable[[bytes], Any]:
    """Reads JSON as `kind`."""
    return msgspec.json.Decoder(kind, strict=False).decode


def encode_body(body: msgspec.Struct) -> bytes:
    """One of the structs above as compact JSON."""
    return fastjson.dumps_compact(body)
