"""How far each consumer group has come: `config/consumerOffset.json`.

topic@group -> queue id -> next queue offset. Commits change memory only; the file follows within seconds,
and a crash takes back that much progress (messages are consumed again, never lost).

Between two brokers of ours progress flows both ways (B162), and whichever side knows more is right. Two
tables *join*: of each queue the one of the later reset counts, and of the same reset the greater offset. A
*reset* is whatever takes a queue's offset back, or a row away; it is dated (ms, and later than the one before,
so that clocks set back do no harm) and kept beside the offsets as `resetTable`. Joining in any order, twice,
or again after a crash gives the same table, so neither side has to remember what the other has got. Rejected:
a greatest-offset rule alone (no operator could ever reset a group), and sending each commit to the other side
(it would have to be remembered while that side is down).

What the transaction check has passed isn't joined: only a master checks, in its own log, and a slave has its
master's word alone (`follow`). What it knows beyond that is from a time when it was the master itself, of messages
that its successor may never have had.

With RocketMQ's brokers progress flows from master to slave only (B106, `take_over`); they ignore
`resetTable` when they read the file, and lose it when they write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.consumer.progressbody import (
    WHOLE_ROW,
    Offsets,
    Progress,
    encode_progress,
    parse_progress,
)
from hatwisted.timing.throttle import LogThrottle, more_like_it
from hatwisted.wire import fastjson
from hatwisted.wire.registration import DataVersion

SEPARATOR = "@"
"""Between topic and group; no topic's name contains it."""

CHECK_GROUP = "CID_RMQ_SYS_TRANS"
"""Consumer group under which the progress of the transaction check is kept."""

DELETION_KEPT = 7 * 24 * 3600 * 1000
"""ms that a deletion is remembered: a slave down for longer than this brings the row back."""

MAX_BYTES = 12 << 20
"""Of the table as it is sent to slaves: no frame has more than 16 MiB, and anybody can commit for groups that
nobody has heard of. Beyond, offsets of further queues aren't kept."""

DELETED_SHARE = 4
"""Deletions that others tell of rows unknown here have this part of the room at most. Anybody can tell of them,
and they are kept for days; of those beyond, a slave that was down for long may bring the row back."""

RECOUNT = 10.0
"""Seconds between two looks at how large the table is, once it's full."""

_QUEUE_BYTES = 26
"""A queue's part of that at most: 5 digits, 18 digits, three marks."""

Accepts = Callable[[str, str, int, int], bool]
"""(group, topic, queue id, offset): is this offset of another table about this broker's messages?"""


class ConsumerOffsetTable:
    """All groups' progress."""

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._offsets: Offsets = {}
        self._resets: Offsets = {}
        self._joined: list[Callable[[str, str, int], None]] = []
        self._version = DataVersion(timestamp=int(clock.seconds() * 1000))
        self._dirty = False
        self._encoded: dict[tuple[bool, bool], bytes] = {}
        """(with version, with resets) -> the answer that was asked for last, until the table changes: slaves ask
        again and again, each for the same one."""
        self._room = 0
        self.left_out_total = 0
        """Rows and queues that weren't kept for want of room."""
        """Bytes that are certainly left; what is removed counts with the next look."""
        self._recount_at = 0.0
        self._deleted = 0
        """Bytes of rows that are only deletions, at most; counted anew with the next look, too."""
        self._recount_deleted_at = 0.0
        self._complaints = LogThrottle(clock)
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def on_joined(self, listener: Callable[[str, str, int], None]) -> None:
        """`listener(group, topic, queue id)` whenever another broker knew better how far a group has come."""
        self._joined.append(listener)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note where a group stands. A step back is a reset.

        - group: which
        - topic, queue_id: of the queue
        - offset: queue offset of the next message
        """
        key = f"{topic}{SEPARATOR}{group}"
        row = self._offsets.get(key, {})
        if queue_id not in row:
            if not self._admit(self._offsets, key):
                return
            row = self._offsets.setdefault(key, row)
        elif offset < row[queue_id]:
            self._date_reset(key, queue_id)
        row[queue_id] = offset
        self._change()

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """As `commit`, by an operator: it counts even if another broker knows of a greater offset."""
        key = f"{topic}{SEPARATOR}{group}"
        if queue_id not in self._offsets.get(key, {}) and not self._admit(self._offsets, key):
            return
        self._date_reset(key, queue_id)
        self._offsets.setdefault(key, {})[queue_id] = offset
        self._change()

    def _admit(self, table: Offsets, key: str) -> bool:
        """Is there room for one more queue of `key`?"""
        size = _QUEUE_BYTES if key in table else _row_size(key)
        now = self._clock.seconds()
        if size > self._room and now >= self._recount_at:
            self._recount_at = now + RECOUNT
            self._room = MAX_BYTES - len(encode_progress(self.progress()))
        if size > self._room:
            self.left_out_total += 1
            if (others := self._complaints.admit("full")) is not None:
                self._log.error(
                    "{limit} bytes of consumer offsets: those of {key} aren't kept{more}; "
                    "delete groups that don't exist any more",
                    limit=MAX_BYTES,
                    key=key[:100],
                    more=more_like_it(others),
                )
            return False
        self._room -= size
        return True

    def _admit_deletion(self, key: str) -> bool:
        """Is there room to note that another broker has deleted a row?"""
        if key in self._offsets or key in self._resets:
            return self._admit(self._resets, key)
        size, most, now = _row_size(key), MAX_BYTES // DELETED_SHARE, self._clock.seconds()
        if self._deleted + size > most and now >= self._recount_deleted_at:
            self._recount_deleted_at = now + RECOUNT
            self._deleted = sum(_row_size(row) for row in self._resets if row not in self._offsets)
        if self._deleted + size > most or not self._admit(self._resets, key):
            return False
        self._deleted += size
        return True

    def remove_group(self, group: str) -> None:
        """Forget the group's progress in all topics, here and, with the next joining, elsewhere."""
        self._remove([f"{topic}{SEPARATOR}{group}" for topic, _, name in self._keys() if name == group])

    def remove_topic(self, topic: str) -> None:
        """Forget all groups' progress in the topic, likewise."""
        self._remove(f"{topic}{SEPARATOR}{group}" for group in self.groups_of(topic))

    def _remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._date_reset(key, WHOLE_ROW)
            del self._offsets[key]
            self._change()

    def _date_reset(self, key: str, queue_id: int) -> None:
        row = self._resets.setdefault(key, {})
        if queue_id not in row:
            self._admit(self._resets, key)  # counted only: what is reset has its place
        latest = max(self._now(), max(row.values(), default=0) + 1)
        if queue_id == WHOLE_ROW:
            row.clear()
        row[queue_id] = latest

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed queue offset; None if there is none.

        - group: which
        - topic, queue_id: of the queue
        """
        return self._offsets.get(f"{topic}{SEPARATOR}{group}", {}).get(queue_id)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Queue id -> committed queue offset; empty if the group has committed nothing."""
        return dict(self._offsets.get(f"{topic}{SEPARATOR}{group}", {}))

    def topics_by_group(self) -> dict[str, list[str]]:
        """Topics that each group has committed an offset of: one walk over the table for all of them."""
        found: dict[str, list[str]] = {}
        for topic, _, group in self._keys():
            found.setdefault(group, []).append(topic)
        return found

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have committed an offset of the topic."""
        return [group for name, _, group in self._keys() if name == topic]

    def _keys(self) -> Iterator[tuple[str, str, str]]:
        return (key.partition(SEPARATOR) for key in self._offsets)

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give a group the offsets that another one has in a topic; nothing happens if it has none.

        - source: the other one
        - target: the group
        - topic: whose queues
        """
        for queue_id, offset in self.queues(source, topic).items():
            self.reset(target, topic, queue_id, offset)

    # ---- other brokers' tables

    def take_over(self, data: bytes) -> None:
        """A RocketMQ master's answer to GET_ALL_CONSUMER_OFFSET: each received group and topic replaces the
        one held, none is removed (B103). Raises ValueError."""
        received = parse_progress(data).offset_table
        self._offsets.update(received)
        for key in received:
            self._resets.pop(key, None)
        self._room, self._recount_at = 0, 0.0
        self._change()

    def follow(self, theirs: Progress) -> None:
        """A master of ours has answered its slave: `join`, and what only masters count is what it says."""
        self.join(theirs)
        counted = {key: dict(row) for key, row in theirs.offset_table.items() if _masters_own(key)}
        if counted != {key: row for key, row in self._offsets.items() if _masters_own(key)}:
            others = {key: row for key, row in self._offsets.items() if not _masters_own(key)}
            self._offsets = others | counted
            self._room, self._recount_at = 0, 0.0
            self._change()

    def join(self, theirs: Progress, accepts: Accepts | None = None) -> None:
        """Learn what the other table knows better, as far as `accepts` says; the rest may come again."""
        for key, row in theirs.offset_table.items():
            if _masters_own(key):
                continue
            if self._resets.get(key) == theirs.reset_table.get(key) and self._offsets.get(key) == row:
                continue
            self._learn_deletion(key, theirs)
            for queue_id, offset in row.items():
                self._learn(key, queue_id, offset, theirs, accepts)
        for key in [key for key in theirs.reset_table if key not in theirs.offset_table]:
            if not _masters_own(key):
                self._learn_deletion(key, theirs)

    def _learn_deletion(self, key: str, theirs: Progress) -> None:
        """Whatever was committed before the row was last deleted over there is void."""
        deleted = theirs.reset_table.get(key, {}).get(WHOLE_ROW, 0)
        resets = self._resets.get(key, {})
        if deleted <= resets.get(WHOLE_ROW, 0) or not self._admit_deletion(key):
            return
        later = {queue_id: at for queue_id, at in resets.items() if at > deleted}
        row = self._offsets.pop(key, {})
        kept = {queue_id: offset for queue_id, offset in row.items() if queue_id in later}
        if kept:
            self._offsets[key] = kept
        self._resets[key] = {WHOLE_ROW: deleted, **later}
        self._change()

    def _learn(
        self,
        key: str,
        queue_id: int,
        offset: int,
        theirs: Progress,
        accepts: Accepts | None,
    ) -> None:
        at = theirs.reset_of(key, queue_id)
        if not _better(at, offset, self.progress().reset_of(key, queue_id), self._offset(key, queue_id)):
            return
        topic, _, group = key.partition(SEPARATOR)
        if accepts is not None and not accepts(group, topic, queue_id, offset):
            return
        if queue_id not in self._offsets.get(key, {}) and not self._admit(self._offsets, key):
            return
        self._offsets.setdefault(key, {})[queue_id] = offset
        if at > self._resets.get(key, {}).get(WHOLE_ROW, 0):
            self._resets.setdefault(key, {})[queue_id] = at
        self._change()
        for listener in self._joined:
            listener(group, topic, queue_id)

    def ahead_of(self, theirs: Progress, keys: Iterable[str] | None = None) -> Progress:
        """What the other table would learn from this one. keys: of the rows that are looked at; None: of all."""
        ours, ahead = self.progress(), Progress(offset_table={})
        for key in dict.fromkeys((*ours.offset_table, *ours.reset_table)) if keys is None else keys:
            if _masters_own(key):
                continue
            row, resets = ours.offset_table.get(key, {}), ours.reset_table.get(key, {})
            known, their_resets = theirs.offset_table.get(key, {}), theirs.reset_table.get(key, {})
            if row == known and resets == their_resets:
                continue
            better = {
                queue_id: offset
                for queue_id, offset in row.items()
                if _better(
                    ours.reset_of(key, queue_id),
                    offset,
                    theirs.reset_of(key, queue_id),
                    known.get(queue_id),
                )
            }
            if better:
                ahead.offset_table[key] = better
            if resets and (better or resets.get(WHOLE_ROW, 0) > their_resets.get(WHOLE_ROW, 0)):
                ahead.reset_table[key] = resets
        return ahead

    def _offset(self, key: str, queue_id: int) -> int | None:
        return self._offsets.get(key, {}).get(queue_id)

    def _now(self) -> int:
        return int(self._clock.seconds() * 1000)

    def _change(self) -> None:
        self._dirty = True
        self._encoded.clear()
        for listener in self._listeners:
            listener()

    # ---- outside forms

    def progress(self) -> Progress:
        """The table itself: not to be changed, nor kept."""
        return Progress(offset_table=self._offsets, reset_table=self._resets)

    def encode(self) -> bytes:
        """The content of consumerOffset.json: RocketMQ's, as long as nothing was reset."""
        self._forget_old_deletions()
        content: dict[str, Offsets] = {"offsetTable": self._offsets}
        if self._resets:
            content["resetTable"] = self._resets
        return fastjson.dumps_pretty(content)

    def _forget_old_deletions(self) -> None:
        limit = self._now() - DELETION_KEPT
        gone = [key for key in self._resets if key not in self._offsets]
        for key in gone:
            if max(self._resets[key].values()) < limit:
                del self._resets[key]
                self._encoded.clear()

    def encode_compact(self, with_version: bool = False, with_resets: bool = False) -> bytes:
        """The answer to GET_ALL_CONSUMER_OFFSET; with a DataVersion for slaves of 5.x, with the resets for
        ours."""
        if self._dirty:
            self._dirty = False
            self._version = self._version.following(self._now())
        kind = with_version, with_resets
        if (known := self._encoded.get(kind)) is not None:
            return known
        content = self.progress()
        if with_version:
            content.data_version = self._version
        if not with_resets:
            content.reset_table = {}
        self._encoded = {kind: encode_progress(content)}
        return self._encoded[kind]

    def decode(self, data: bytes) -> None:
        """Take over consumerOffset.json. Raises ValueError."""
        content = parse_progress(data)
        self._offsets, self._resets = content.offset_table, content.reset_table
        self._encoded.clear()
        self._room, self._recount_at = 0, 0.0


def _row_size(key: str) -> int:
    """A row's bytes with one queue, at most."""
    return _QUEUE_BYTES + len(fastjson.dumps_compact(key))


def _masters_own(key: str) -> bool:
    """Is this row counted by the master alone?"""
    return key.partition(SEPARATOR)[2] == CHECK_GROUP


def _better(at: int, offset: int, their_at: int, their_offset: int | None) -> bool:
    """Does (reset `at`, `offset`) know more of a queue than the other side?"""
    if at != their_at:
        return at > their_at
    return their_offset is None or offset > their_offset
