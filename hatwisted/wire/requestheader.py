"""The extFields of requests as typed headers.

Whatever a peer may get wrong (a missing field, text where a number belongs, a number that doesn't fit the
field it will be stored in) ends in one error, `BadRequestField`, which the broker answers with code 1 and a
remark; it never closes a connection. Unknown fields are normal and ignored.

Sends are parsed for every message, so `parse_send_v2` is one expression that assumes a valid header; only when
that fails are the fields checked one by one to name the bad one. Version 1 (long names, one client library)
is renamed to version 2 first. Rejected: msgspec.convert with a lax int (it can't read both `"1"` and
`"true"` as true, and its errors don't quote the value).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from hatwisted.wire.consumerdata import TAG

_INT32_END: Final = 1 << 31
_INT64_END: Final = 1 << 63

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""Field of a look-up by a producer's message id instead of a key."""

NOT_SAID: Final = -_INT32_END
"""`max_reconsume_times` of a send that doesn't give it, as distinct from 0."""


class BadRequestField(ValueError):
    """The peer's request lacks a field, or the field's text isn't what it should be."""

    def __init__(self, name: str, value: str | None) -> None:
        problem = "is missing" if value is None else f"has the value {value[:80]!r}"
        super().__init__(f"request field {name} {problem}")
        self.name = name
        self.value = value


def text_field(ext: Mapping[str, str], name: str) -> str:
    """A required text; may be empty."""
    try:
        return ext[name]
    except KeyError:
        raise BadRequestField(name, None) from None


def _number(ext: Mapping[str, str], name: str, end: int) -> int:
    text = text_field(ext, name)
    try:
        value = int(text)
    except ValueError:
        raise BadRequestField(name, text) from None
    if not -end <= value < end:
        raise BadRequestField(name, text)
    return value


def int_field(ext: Mapping[str, str], name: str, default: int | None = None) -> int:
    """An int32. BadRequestField if it isn't a number.

    - ext: the request's fields
    - name: of the field
    - default: if it's missing or empty; None: it mustn't be
    """
    if default is not None and not ext.get(name):
        return default
    return _number(ext, name, _INT32_END)


def long_field(ext: Mapping[str, str], name: str, default: int | None = None) -> int:
    """An int64. BadRequestField if it isn't a number.

    - ext: the request's fields
    - name: of the field
    - default: if it's missing or empty; None: it mustn't be
    """
    if default is not None and not ext.get(name):
        return default
    return _number(ext, name, _INT64_END)


def bool_field(ext: Mapping[str, str], name: str, default: bool = False) -> bool:
    """`true` in any case and `1` (which librocketmq writes) are true; anything else is false.

    - ext: the request's fields
    - name: of the field
    - default: if it's missing
    """
    text = ext.get(name)
    return default if text is None else text == "1" or text.lower() == "true"


Int32 = Annotated[int, msgspec.Meta(ge=-_INT32_END, lt=_INT32_END)]
Int64 = Annotated[int, msgspec.Meta(ge=-_INT64_END, le=_INT64_END - 1)]


class SendHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a send. `properties` is the raw property text, "" when there is none.

    The encoded names are version 2's, so that a receiver can decode a valid header in one go.
    """

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: Int32 = msgspec.field(name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str = msgspec.field(name="i", default="")
    reconsume_times: Int32 = msgspec.field(name="j", default=0)
    unit_mode: bool = msgspec.field(name="k", default=False)
    max_reconsume_times: Int32 = msgspec.field(name="l", default=NOT_SAID)
    batch: bool = msgspec.field(name="m", default=False)
    broker_name: str = msgspec.field(name="n", default="")


_SEND_NAMES: Final = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "bname": "n",
}
"""Version 1 to version 2."""
_TRUTHS: Final = frozenset(("true", "1", "True", "TRUE"))


def parse_send_v2(ext: Mapping[str, str]) -> SendHeader:
    """Codes 310 and 320: one-letter names."""
    get = ext.get
    try:
        header = SendHeader(
            ext["a"],
            ext["b"],
            ext["c"],
            int(ext["d"]),
            int(ext["e"]),
            int(ext["f"]),
            int(ext["g"]),
            int(ext["h"]),
            get("i", ""),
            int(get("j") or 0),
            get("k") in _TRUTHS,
            int(get("l") or NOT_SAID),
            get("m") in _TRUTHS,
            get("n", ""),
        )
    except (KeyError, ValueError):
        return _parse_send_fields(ext)
    # All int32 fields at once: after adding 2^31, a number has bits above the 32nd only if it's out of range.
    excess = header.default_topic_queue_nums + _INT32_END | header.queue_id + _INT32_END
    excess |= header.sys_flag + _INT32_END | header.flag + _INT32_END
    excess |= header.reconsume_times + _INT32_END | header.max_reconsume_times + _INT32_END
    if excess >> 32 or header.born_timestamp + _INT64_END >> 64:
        return _parse_send_fields(ext)
    return header


def _parse_send_fields(ext: Mapping[str, str]) -> SendHeader:
    """Field by field: raises BadRequestField for the first bad one."""
    return SendHeader(
        producer_group=text_field(ext, "a"),
        topic=text_field(ext, "b"),
        default_topic=text_field(ext, "c"),
        default_topic_queue_nums=int_field(ext, "d"),
        queue_id=int_field(ext, "e"),
        sys_flag=int_field(ext, "f"),
        born_timestamp=long_field(ext, "g"),
        flag=int_field(ext, "h"),
        properties=ext.get("i", ""),
        reconsume_times=int_field(ext, "j", 0),
        unit_mode=bool_field(ext, "k"),
        max_reconsume_times=int_field(ext, "l", NOT_SAID),
        batch=bool_field(ext, "m"),
        broker_name=ext.get("n", ""),
    )


def parse_send_v1(ext: Mapping[str, str]) -> SendHeader:
    """Code 10: long names. Errors name the field as the peer wrote it."""
    try:
        return parse_send_v2({short: ext[name] for name, short in _SEND_NAMES.items() if name in ext})
    except BadRequestField as error:
        long_names = {short: name for name, short in _SEND_NAMES.items()}
        raise BadRequestField(long_names[error.name], error.value) from None


class PullHeader(msgspec.Struct, frozen=True):
    """Codes 11 and 361. Offsets count messages of the queue; `max_msg_bytes` -1: the broker's limit."""

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str = TAG
    max_msg_bytes: int = -1

    COMMIT_OFFSET = 0x1
    SUSPEND = 0x2
    SUBSCRIPTION = 0x4
    CLASS_FILTER = 0x8
    LITE = 0x10


def parse_pull(ext: Mapping[str, str]) -> PullHeader:
    """The header of a pull; BadRequestField if it isn't one."""
    return PullHeader(
        consumer_group=text_field(ext, "consumerGroup"),
        topic=text_field(ext, "topic"),
        queue_id=int_field(ext, "queueId"),
        queue_offset=long_field(ext, "queueOffset"),
        max_msg_nums=int_field(ext, "maxMsgNums"),
        sys_flag=int_field(ext, "sysFlag"),
        commit_offset=long_field(ext, "commitOffset"),
        suspend_timeout_millis=long_field(ext, "suspendTimeoutMillis"),
        sub_version=long_field(ext, "subVersion"),
        subscription=ext.get("subscription"),
        expression_type=ext.get("expressionType") or TAG,
        max_msg_bytes=int_field(ext, "maxMsgBytes", -1),
    )


class QueryMessageHeader(msgspec.Struct, frozen=True):
    """Code 12: look up messages by key. Times in ms, both ends included."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    by_unique_key: bool


def parse_query_message(ext: Mapping[str, str]) -> QueryMessageHeader:
    """The header of a look-up by key; BadRequestField if it isn't one."""
    return QueryMessageHeader(
        topic=text_field(ext, "topic"),
        key=text_field(ext, "key"),
        max_num=int_field(ext, "maxNum"),
        begin_timestamp=long_field(ext, "beginTimestamp"),
        end_timestamp=long_field(ext, "endTimestamp"),
        by_unique_key=bool_field(ext, UNIQUE_KEY_QUERY),
    )


class RegisterBrokerHeader(msgspec.Struct, frozen=True):
    """Codes 103, 104 and 322 (the last two use the first four fields). `body_crc32` 0: not checked."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int
    ha_server_addr: str = ""
    compressed: bool = False
    body_crc32: int = 0

    def to_ext(self) -> dict[str, str]:
        """The extFields of a 103."""
        return {
            "brokerName": self.broker_name,
            "brokerAddr": self.broker_addr,
            "clusterName": self.cluster_name,
            "haServerAddr": self.ha_server_addr,
            "brokerId": str(self.broker_id),
            "compressed": "true" if self.compressed else "false",
            "bodyCrc32": str(self.body_crc32),
        }


def parse_register_broker(ext: Mapping[str, str]) -> RegisterBrokerHeader:
    """The header of a registration, an unregistration, or a query of the data version."""
    return RegisterBrokerHeader(
        broker_name=text_field(ext, "brokerName"),
        broker_addr=text_field(ext, "brokerAddr"),
        cluster_name=text_field(ext, "clusterName"),
        broker_id=long_field(ext, "brokerId"),
        ha_server_addr=ext.get("haServerAddr", ""),
        compressed=bool_field(ext, "compressed"),
        body_crc32=int_field(ext, "bodyCrc32", 0),
    )
