"""The inner loops that a broker's speed depends on, under the names by which append and dispatch call them.

A compiled twin would replace them here and nowhere else: the same arguments, the same results, to the byte.

* `walk(buf, start, limit)`: positions of the records that follow one another, and why they end.
* `decode_few(buf, base, positions, end, delay_levels)`: what few records mean to queues and index, as values.
* `gather(buf, base, positions, end)`: the columns of many, checked.
* `dispatch_columns(records, delay_levels)`: what those mean to queues and index.
* `RecordEncoder(store_host).encode(put, topic_field, parts, at, timestamp, queue_offset)`: the messages of a put
  as records.

None of them keeps state between calls (except the encoder's topics), raises for any bytes, or reads beyond
the buffer.
"""

from __future__ import annotations

from hatwisted.logcodec.dispatchscan import DispatchColumns, dispatch_columns
from hatwisted.logcodec.encoder import RecordEncoder
from hatwisted.logcodec.fewscan import Entry, decode_few
from hatwisted.logcodec.scan import gather, walk

__all__ = [
    "DispatchColumns",
    "Entry",
    "RecordEncoder",
    "decode_few",
    "dispatch_columns",
    "gather",
    "walk",
]
