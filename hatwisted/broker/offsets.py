"""How far each consumer group has come: `config/consumerOffset.json`.

topic@group -> queue id -> next queue offset. Commits change memory only; the file follows within seconds,
and a crash takes back that much progress (messages are consumed again, never lost). Progress flows from
master to slave and not back (B106): a slave merges its master's table into its own every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from twisted.internet.interfaces import IReactorTime

from hatwisted.wire import fastjson
from hatwisted.wire.registration import DataVersion

SEPARATOR = "@"
"""Between topic and group; no topic's name contains it."""

Offsets = dict[str, dict[int, int]]


class _Content(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """`data_version`: 5.x slaves can't do without, 4.x has none."""

    data_version: DataVersion | None = None
    offset_table: Offsets


class ConsumerOffsetTable:
    """All groups' progress. changed: called after every change, to have it written."""

    def __init__(self, clock: IReactorTime, changed: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._offsets: Offsets = {}
        self._version = DataVersion(timestamp=int(clock.seconds() * 1000))
        self._dirty = False
        self.changed = changed

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group's next message of the queue is the one at queue offset `offset`. Going back is
        allowed."""
        self._offsets.setdefault(f"{topic}{SEPARATOR}{group}", {})[queue_id] = offset
        self._change()

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed queue offset; None if there is none."""
        return self._offsets.get(f"{topic}{SEPARATOR}{group}", {}).get(queue_id)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Queue id -> committed queue offset; empty if the group has committed nothing."""
        return dict(self._offsets.get(f"{topic}{SEPARATOR}{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """Topics that the group has committed an offset of."""
        return [topic for topic, _, name in self._keys() if name == group]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have committed an offset of the topic."""
        return [group for name, _, group in self._keys() if name == topic]

    def _keys(self) -> Iterator[tuple[str, str, str]]:
        return (key.partition(SEPARATOR) for key in self._offsets)

    def clone(self, source: str, target: str, topic: str) -> None:
        """`target` stands where `source` stands in the topic; nothing happens if that is nowhere."""
        queues = self.queues(source, topic)
        if queues:
            self._offsets[f"{topic}{SEPARATOR}{target}"] = queues
            self._change()

    def merge(self, data: bytes) -> None:
        """Take over the master's answer to GET_ALL_CONSUMER_OFFSET: each received group and topic replaces
        the
        one held, none is removed (B103). Raises ValueError."""
        self._offsets.update(_parse(data))
        self._change()

    def _change(self) -> None:
        self._dirty = True
        self.changed()

    def encode(self) -> bytes:
        """The content of consumerOffset.json."""
        return fastjson.dumps_pretty({"offsetTable": self._offsets})

    def encode_compact(self, with_version: bool = False) -> bytes:
        """The answer to GET_ALL_CONSUMER_OFFSET; with a DataVersion for slaves of 5.x."""
        if self._dirty:
            self._dirty = False
            self._version = self._version.following(int(self._clock.seconds() * 1000))
        version = self._version if with_version else None
        return fastjson.dumps_compact(_Content(data_version=version, offset_table=self._offsets))

    def decode(self, data: bytes) -> None:
        """Take over consumerOffset.json. Raises ValueError."""
        self._offsets = _parse(data)


def _parse(data: bytes) -> Offsets:
    content = fastjson.loads(data)
    table = content.get("offsetTable") if isinstance(content, Mapping) else None
    if not isinstance(table, Mapping):
        raise ValueError("no offsetTable in the consumer offsets")
    try:
        return {key: {int(queue): int(offset) for queue, offset in row.items()} for key, row in table.items()}
    except (AttributeError, TypeError) as error:
        raise ValueError(f"consumer offsets of another shape: {error}") from None
