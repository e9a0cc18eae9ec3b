"""Brokers that are away while a cluster is followed: what the source says of them is in Spark's log alone.

A stream's progress has the end of each queue whose broker answered, beside the place reached in every queue. The
brokers of the second that aren't among the first are away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from hatwisted.pipeline.spark.queueoffsets import by_queue

_log = logging.getLogger(__name__)


class Absence:
    """Of one landing: each broker's is told once, and its end."""

    def __init__(self) -> None:
        self._absent: frozenset[str] = frozenset()

    def look(self, sources: Iterable[Mapping[str, Any]]) -> None:
        """sources: of a progress of Spark's, as its JSON has them."""
        absent = frozenset(broker for source in sources for broker in _absent(source))
        for broker in sorted(absent - self._absent):
            _log.warning("broker %s is away: its queues wait for it, the others are landed", broker)
        for broker in sorted(self._absent - absent):
            _log.warning("broker %s is back", broker)
        self._absent = absent


def _absent(source: Mapping[str, Any]) -> frozenset[str]:
    reached, ends = source.get("endOffset"), source.get("latestOffset")
    if not isinstance(reached, Mapping) or not isinstance(ends, Mapping):
        return frozenset()
    return _brokers(reached) - _brokers(ends)


def _brokers(offsets: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(queue.broker_name for queue, _ in by_queue(offsets))
