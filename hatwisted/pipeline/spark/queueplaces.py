"""A stream's place in each queue, as Spark keeps it.

    {"Orders": {"broker-a": {"0": 1500}},
     ":begin": {"Orders": {"broker-a": {"0": 0}}},
     ":last": {"Orders": {"broker-a": {"0": [734003200, 1795221192756]}}}}

The offset reached, and beside it two things that it alone doesn't say. Where the batch that led to it began, if
that wasn't the batch before's place: in the first batch, and in a queue that was new, or begun again. And which
record is the last one before it, by its physical offset and store time: in a topic that was created again, another
message is there. Names of topics have no colon. A checkpoint of an earlier version has the offsets alone.

Keys are sorted, since Spark compares places as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hatwisted.pipeline.remote.recordmarks import Mark
from hatwisted.pipeline.spark.queueoffsets import OTHER, by_queue, offsets_json, stored_offsets
from hatwisted.wire.messagequeue import MessageQueue

_BEGIN: Final = f"{OTHER}begin"
_LAST: Final = f"{OTHER}last"


class Place(NamedTuple):
    """offset: the next one to be read. last: the record before it, if that is known. begin: where the batch that
    ends here begins; None: at the place before.
    """

    offset: int
    last: Mark | None = None
    begin: int | None = None


Places = dict[MessageQueue, Place]


def places_json(places: Mapping[MessageQueue, Place]) -> dict[str, Any]:
    """As Spark keeps them."""
    begins = {queue: place.begin for queue, place in places.items() if place.begin is not None}
    lasts = {queue: list(place.last) for queue, place in places.items() if place.last is not None}
    found = offsets_json({queue: place.offset for queue, place in places.items()})
    for name, tree in ((_BEGIN, offsets_json(begins)), (_LAST, offsets_json(lasts))):
        if tree:
            found[name] = tree
    return found


def stored_places(tree: Mapping[str, Any]) -> Places:
    """The reverse."""
    begins, lasts = dict(by_queue(tree.get(_BEGIN, {}))), dict(by_queue(tree.get(_LAST, {})))
    return {
        queue: Place(offset, Mark(*lasts[queue]) if queue in lasts else None, begins.get(queue))
        for queue, offset in stored_offsets(tree).items()
    }
