"""Messages of a table as rows that Spark writes as lines of JSON, as every command of ours writes a message
(`clientcore.messagejson`): the same names, times in ms, no field that is missing.

Only what the chosen columns tell is said: `offsetMessageId` needs the host and the offset that it is made of. The
id is made in Python because a host may be an IPv6 address, which comes shortened.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

from hatwisted.clientcore.messagejson import NAMES, TABLE_NAMES
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.messageid import encode_message_id

_PLACE: Final = frozenset({"store_host", "physical_offset"})
_TIMES: Final = frozenset({"born_timestamp", "store_timestamp"})
_OFFSET_DIGITS: Final = 16
_OFFSET_MASK: Final = (1 << 64) - 1


def as_json_rows(messages: DataFrame) -> DataFrame:
    """A body as text where it is UTF-8, as base64 where it isn't."""
    shown = with_text_bodies(messages, is_text(F.col("body")) if "body" in messages.columns else None)
    fields = {TABLE_NAMES.get(name, name): _field(name) for name in shown.columns}
    if set(shown.columns) >= _PLACE:
        place = fields["offsetMessageId"] = offset_message_ids("store_host", "physical_offset")
        if "messageId" in fields:
            fields["messageId"] = F.coalesce(fields["messageId"], place)
    return shown.select(*(fields[name].alias(name) for name in NAMES if name in fields))


def _field(name: str) -> Column:
    if name in _TIMES:
        return F.unix_millis(name)
    return F.coalesce(F.col(name), F.lit("")) if name == "tags" else F.col(name)


@arrow_udf(StringType())  # type: ignore[call-overload,untyped-decorator,unused-ignore]
def offset_message_ids(hosts: pa.Array, offsets: pa.Array) -> pa.Array:
    """The ids of places in logs; null without a host that has one.

    - hosts: as tables have them
    - offsets: in the log
    """
    heads = {host: _head(host) for host in hosts.unique().to_pylist()}
    found = [
        None if (head := heads[host]) is None or offset is None else f"{head}{offset & _OFFSET_MASK:016X}"
        for host, offset in zip(hosts.to_pylist(), offsets.to_pylist(), strict=True)
    ]
    return pa.array(found, pa.string())


def _head(host: str | None) -> str | None:
    """What the ids of a host begin with."""
    try:
        return None if host is None else encode_message_id(HostPort.parse(host), 0)[:-_OFFSET_DIGITS]
    except ValueError:
        return None


def is_text(body: Column) -> Column:
    """Is it UTF-8?"""
    return F.is_valid_utf8(body.cast("string"))


def with_text_bodies(messages: DataFrame, plain: Column | None) -> DataFrame:
    """With `body64` beside `body`, which has those that are plain.

    - messages: of any columns
    - plain: whether a body can be written as text; None without bodies
    """
    if plain is None:
        return messages
    # Spark's base64 comes in lines of 76 letters.
    text, coded = F.col("body").cast("string"), F.translate(F.base64("body"), "\r\n", "")
    columns: list[Column] = []
    for name in messages.columns:
        if name == "body":
            columns += [F.when(plain, text).alias("body"), F.when(~plain, coded).alias("body64")]
        else:
            columns.append(F.col(name))
    return messages.select(*columns)
