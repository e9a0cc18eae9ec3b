"""Which expression each consumer group filters each topic by: `config/consumerFilter.json`.

A heartbeat's SQL92 subscriptions are compiled here, once, and pulls are answered by the compiled form. What
takes long is compiled in turns (`waitingexpressions`), or when a pull is the first to ask for it. The rules
are those of 4.9.7's ConsumerFilterManager: a newer version of a subscription replaces an older one; one that
can't be compiled removes its forerunner, so that the group's pulls are refused rather than filtered by what
was meant before; a group that leaves is only marked dead, and forgotten a day later.

Broken expressions are refused whether or not filtering is switched on (`enablePropertyFilter`): it is only
asked when a pull has found its filter.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from hatwisted.broker.filter.bloomfilter import BITS, bloom_positions
from hatwisted.broker.filter.subscriptiondata import Subscription
from hatwisted.broker.filter.waitingexpressions import WaitingExpressions
from hatwisted.sqlfilter.errors import Sql92Error
from hatwisted.sqlfilter.expression import Lookup, Sql92Filter, sql92_filter
from hatwisted.sqlfilter.parser import MAX_PARTS
from hatwisted.store.interfaces import Buffer
from hatwisted.store.queue.reading import RecordTest
from hatwisted.wire import fastjson
from hatwisted.wire.consumerdata import SQL92
from hatwisted.wire.layout import PROPERTY_RETRY_TOPIC
from hatwisted.wire.properties import find_property
from hatwisted.wire.recordreader import raw_properties

KEEP_DEAD = 24 * 3600 * 1000
"""ms that a departed group's filters are kept (filterDataCleanTimeSpan)."""

MAX_TEXT = 1 << 19
"""Characters of all expressions together, and of the names they stand under: some 7,000 of usual length, and at
most 20 MiB when compiled. Beyond that none is compiled; its group's pulls are answered that there is none."""

SIMPLE = 32
"""Nodes of an expression that cost as much as finding the record and its properties, some 3 us."""

MAX_REFUSED = 1000
"""Expressions remembered as logged, so that a heartbeat every 30 s doesn't log them again."""


class ConsumerFilter(msgspec.Struct, kw_only=True):
    """One group's expression for one topic. Times in ms; version: the client's clock when it subscribed."""

    group: str
    topic: str
    compiled: Sql92Filter
    born: int
    version: int
    died: int = 0

    @property
    def dead(self) -> bool:
        return self.died >= self.born


def compile_filter(kind: str, expression: str | None) -> Sql92Filter:
    """Raises Sql92Error, also for an expression type that isn't SQL92."""
    if kind != SQL92:
        raise Sql92Error(f"unknown expression type {kind}", "", 0)
    return sql92_filter(expression or "")


def record_lookup(record: Buffer) -> Lookup:
    """Properties of a whole record, each found when it is first asked for."""
    raw = raw_properties(record)
    found: dict[str, str | None] = {}

    def look(name: str) -> str | None:
        if name not in found:
            value = find_property(raw, name.encode())
            found[name] = None if value is None else value.decode("utf-8", "replace")
        return found[name]

    return look


def record_test(compiled: Sql92Filter) -> RecordTest:
    """Does a record match?"""
    return RecordTest(lambda record: compiled.matches(record_lookup(record)), _effort(compiled.size))


def _effort(size: int) -> int:
    return 1 + size // SIMPLE


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """What filters are for.

    - enabled: may pulls be filtered by properties (enablePropertyFilter)?
    - support_retry: are messages that come back to their group filtered again (filterSupportRetry)?
    - keep: ms that the filters of a departed group are kept
    """

    enabled: bool = False
    support_retry: bool = False
    keep: int = KEEP_DEAD


class ConsumerFilterTable:
    """All groups' filters."""

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        options: FilterOptions | None = None,
    ) -> None:
        options = options or FilterOptions()
        self._clock = clock
        self._keep = options.keep
        self.enabled = options.enabled
        self.support_retry = options.support_retry
        self._groups: dict[str, dict[str, ConsumerFilter]] = {}
        self._waiting = WaitingExpressions(clock, self._compile)
        self._text = 0
        """How many of MAX_TEXT there are, compiled or not."""
        self._refused: dict[int, int] = {}
        """By hashes, of group and topic and of the expression: those that aren't taken may be of any length."""
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    @property
    def characters(self) -> int:
        """How many of MAX_TEXT there are."""
        return self._text

    def find(self, topic: str, group: str) -> ConsumerFilter | None:
        """The group's filter of the topic, dead or alive. One that waits is compiled now."""
        wanted = self._waiting.take(group, topic)
        if wanted is not None:
            self._compile(group, wanted)
        return self._compiled(topic, group)

    def _compiled(self, topic: str, group: str) -> ConsumerFilter | None:
        return self._groups.get(group, {}).get(topic)

    def shown(self, topic: str, group: str) -> str:
        """The group's filter of the topic as RocketMQ shows it: indented JSON, "null" without one."""
        known = self.find(topic, group)
        return fastjson.dumps_pretty(None if known is None else _written(known)).decode()

    def retry_test(self, group: str) -> RecordTest:
        """The test of what was sent back to `group`: by the filter of the topic it came from, if any."""

        def passes(record: Buffer) -> bool:
            look = record_lookup(record)
            known = self.find(look(PROPERTY_RETRY_TOPIC) or "", group)
            return known is None or known.compiled.matches(look)

        efforts = [_effort(each.compiled.size) for each in self._groups.get(group, {}).values()]
        if group in self._waiting:
            efforts.append(_effort(MAX_PARTS))
        return RecordTest(passes, max(efforts, default=1))

    def carried_test(self, group: str, wanted: Subscription) -> RecordTest | None:
        """The test of a subscription that a pull brings along. None, which lets everything through, if it can't
        be compiled: so does 4.9.7, whose clients ask with CHECK_CLIENT_CONFIG first."""
        try:
            return record_test(compile_filter(wanted.expression_type, wanted.expression))
        except Sql92Error as error:
            self._log_refused(group, wanted, f"{error}; everything passes")
            return None

    # ---- who wants what

    def register(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """Take a heartbeat's subscriptions, which are all that the group has. Follow by `go_on`, once for all."""
        topics = set()
        for wanted in subscriptions:
            topics.add(wanted.topic)
            if not wanted.by_tag:
                self._register(group, wanted)
        self._keep_only(group, topics)

    def go_on(self) -> None:
        """Compile what heartbeats have brought: some at once, the rest in turns of their own."""
        self._waiting.go_on()

    def unregister(self, group: str) -> None:
        """The group's last member has gone."""
        self._keep_only(group, ())

    def stop(self) -> None:
        """Compile no more in turns."""
        self._waiting.stop()

    def _keep_only(self, group: str, topics: Container[str]) -> None:
        """These are all that the group wants now."""
        for unwanted in self._waiting.take_others(group, topics):
            self._text -= _length(group, unwanted.topic, unwanted.expression)
        for topic, known in self._groups.get(group, {}).items():
            if topic not in topics:
                self._die(known)

    def _register(self, group: str, wanted: Subscription) -> None:
        waiting = self._waiting.find(group, wanted.topic)
        if waiting is not None:
            if wanted.version > waiting.version:
                self._waiting.take(group, wanted.topic)
                self._text -= _length(group, waiting.topic, waiting.expression)
                self._have_compiled(group, wanted)
            return
        old = self._compiled(wanted.topic, group)
        if old is None or (wanted.version > old.version and _differs(old, wanted)):
            self._replace(group, wanted, old)
        elif wanted.version >= old.version:
            if old.dead:
                old.died = 0
                self._tell()
            elif wanted.version > old.version:
                self._tell()
            old.version = wanted.version

    def _replace(self, group: str, wanted: Subscription, old: ConsumerFilter | None) -> None:
        if old is not None:
            self._remove(old)
        self._have_compiled(group, wanted)

    def _have_compiled(self, group: str, wanted: Subscription) -> None:
        length = _length(group, wanted.topic, wanted.expression)
        if self._text + length > MAX_TEXT:
            self._log_refused(group, wanted, f"there are more than {MAX_TEXT} characters of expressions")
            return
        self._text += length
        self._waiting.put(group, wanted)

    def _compile(self, group: str, wanted: Subscription) -> None:
        """One that has waited."""
        self._text -= _length(group, wanted.topic, wanted.expression)
        try:
            compiled = compile_filter(wanted.expression_type, wanted.expression)
        except Sql92Error as error:
            self._log_refused(group, wanted, str(error))
            return
        self._log_ignored(group, wanted, compiled)
        new = ConsumerFilter(
            group=group, topic=wanted.topic, compiled=compiled, born=self._now(), version=wanted.version
        )
        self._add(new)

    def _add(self, new: ConsumerFilter) -> None:
        self._groups.setdefault(new.group, {})[new.topic] = new
        self._text += _length(new.group, new.topic, new.compiled.expression)
        self._tell()

    def _remove(self, old: ConsumerFilter) -> None:
        topics = self._groups[old.group]
        del topics[old.topic]
        if not topics:
            del self._groups[old.group]
        self._text -= _length(old.group, old.topic, old.compiled.expression)
        self._tell()

    def _die(self, known: ConsumerFilter) -> None:
        if not known.dead:
            known.died = max(self._now(), known.born)
            self._tell()

    def _log_refused(self, group: str, wanted: Subscription, reason: str) -> None:
        key, refused = hash((group, wanted.topic)), hash(wanted.expression)
        if self._refused.get(key) == refused:
            return
        if len(self._refused) >= MAX_REFUSED:
            self._refused.clear()
        self._refused[key] = refused
        self._log.warn(
            "group {group} can't filter {topic} by {expression}: {reason}",
            group=group,
            topic=wanted.topic,
            expression=repr(wanted.expression[:200]),
            reason=reason,
        )

    def _log_ignored(self, group: str, wanted: Subscription, compiled: Sql92Filter) -> None:
        at = compiled.ignored_from
        if at is not None:
            self._log.warn(
                "group {group} filters {topic} by {expression} only: {rest} after it is ignored",
                group=group,
                topic=wanted.topic,
                expression=repr(wanted.expression[:at][:200]),
                rest=repr(wanted.expression[at:][:80]),
            )

    def _now(self) -> int:
        return int(self._clock.seconds() * 1000)

    # ---- the file

    def _all(self) -> Iterator[ConsumerFilter]:
        for topics in self._groups.values():
            yield from topics.values()

    def clean(self) -> None:
        """Forget those that have been dead for long."""
        limit = self._now() - self._keep
        for known in [known for known in self._all() if known.dead and known.died <= limit]:
            self._remove(known)

    def encode(self) -> bytes:
        """The content of consumerFilter.json."""
        self.clean()
        topics: dict[str, dict[str, object]] = {}
        for known in self._all():
            topics.setdefault(known.topic, {})[known.group] = _written(known)
        content = {topic: {"groupFilterData": groups, "topic": topic} for topic, groups in topics.items()}
        return fastjson.dumps_pretty({"filterDataByTopic": content})

    def decode(self, data: bytes) -> None:
        """Take over consumerFilter.json; who was alive counts as gone half a minute ago. Raises ValueError."""
        content = fastjson.loads(data)
        topics = content.get("filterDataByTopic") if isinstance(content, Mapping) else None
        if not isinstance(topics, Mapping):
            raise ValueError("no filterDataByTopic in the consumer filters")
        try:
            rows = [row for topic in topics.values() for row in topic["groupFilterData"].values()]
            found = [known for row in rows if (known := self._read(row)) is not None]
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"malformed consumer filters: {error!r}") from None
        for known in found:
            self._add(known)

    def _read(self, row: Mapping[str, object]) -> ConsumerFilter | None:
        saved = msgspec.convert(row, _Saved, strict=False)
        try:
            compiled = compile_filter(saved.expression_type, saved.expression)
        except Sql92Error as error:
            self._log.warn(
                "filter of {group} for {topic} is ignored: {error}",
                group=saved.consumer_group,
                topic=saved.topic,
                error=error,
            )
            return None
        return ConsumerFilter(
            group=saved.consumer_group,
            topic=saved.topic,
            compiled=compiled,
            born=saved.born_time,
            version=saved.client_version,
            died=saved.dead_time or max(saved.born_time, self._now() - 30_000),
        )


def _length(*texts: str) -> int:
    return sum(map(len, texts))


def _differs(old: ConsumerFilter, wanted: Subscription) -> bool:
    return wanted.expression != old.compiled.expression or wanted.expression_type != SQL92


class _Saved(msgspec.Struct, rename="camel"):
    """One filter in the file; `bloom_filter_data` is recomputed, `dead` follows from the times."""

    consumer_group: str
    topic: str
    expression: str
    expression_type: str
    born_time: int
    client_version: int
    dead_time: int = 0


def _written(known: ConsumerFilter) -> dict[str, object]:
    """As fastjson writes a ConsumerFilterData; an array of ints stays on its line."""
    positions = ",".join(map(str, bloom_positions(f"{known.group}#{known.topic}")))
    return {
        "bloomFilterData": {"bitNum": BITS, "bitPos": msgspec.Raw(f"[{positions}]".encode())},
        "bornTime": known.born,
        "clientVersion": known.version,
        "consumerGroup": known.group,
        "dead": known.dead,
        "deadTime": known.died,
        "expression": known.compiled.expression,
        "expressionType": SQL92,
        "topic": known.topic,
    }
