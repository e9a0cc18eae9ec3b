"""A configuration that operators look at and change while the server runs (mqadmin's update...Config).

What is changed takes effect where there is a listener, the rest after a restart: all changes go into the
file, each in the place of the line it replaces, so that comments and order stay. RocketMQ rewrites the file
with all its keys and ignores values that it can't parse; here those are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, get_args

import msgspec

from hatwisted.config.errors import ConfigError
from hatwisted.config.javaproperties import check_text, parse_properties, with_properties
from hatwisted.config.load import Loaded, Source, effective_text, schema_fields

C = TypeVar("C", bound=msgspec.Struct)
T = TypeVar("T")

REQUEST = "request"
"""Stands for the file's name in errors about what came over the wire."""


class Reread(NamedTuple):
    """Keys that a file read again has changed. before, after: those in effect, each with its value, unless that is
    never shown; waiting: for a restart."""

    before: dict[str, str | None]
    after: dict[str, str | None]
    waiting: list[str]

    @property
    def taken(self) -> list[str]:
        """The keys that are in effect."""
        return list(self.after)

    def __str__(self) -> str:
        taken = f"in effect: {', '.join(self.taken)}" if self.taken else "nothing to take over"
        return taken + (f"; after a restart: {', '.join(self.waiting)}" if self.waiting else "")


class Derived(Generic[T]):
    """Options of one part: calling it returns them. They are computed at each change, not at each call."""

    def __init__(self, make: Callable[[Any], T], config: msgspec.Struct) -> None:
        self._make = make
        self._present = make(config)

    def __call__(self) -> T:
        return self._present

    def follow(self, config: msgspec.Struct) -> None:
        """The configuration has changed."""
        self._present = self._make(config)


class LiveConfig(Generic[C]):
    """`config`: the values in effect, or that will be after a restart."""

    def __init__(self, config: C) -> None:
        self.config = config
        self._file = b""
        self._changes: dict[str, str] = {}
        self._listeners: list[Callable[[C], None]] = []
        self._update_listeners: list[Callable[[], object]] = []

    def on_change(self, listener: Callable[[C], None]) -> None:
        """`listener(config)` after every change."""
        self._listeners.append(listener)

    def on_update(self, listener: Callable[[], object]) -> None:
        """`listener()` after a change that the file doesn't have yet."""
        self._update_listeners.append(listener)

    def derived(self, make: Callable[[C], T]) -> Derived[T]:
        """What `make` computes from the configuration, kept up to date with every change."""
        derived: Derived[T] = Derived(make, self.config)
        self._listeners.append(derived.follow)
        return derived

    def text(self) -> bytes:
        """All keys as `key=value` lines."""
        return effective_text(Loaded(self.config, [], Source(REQUEST, {}))).encode()

    def parse(self, data: bytes) -> dict[str, str]:
        """The keys and values of a request. Raises ConfigError."""
        check_text(data, REQUEST)
        return {entry.key: entry.value for entry in parse_properties(data, REQUEST)}

    def asked(self, data: bytes) -> dict[str, str | None]:
        """The present values of the keys of a request, as `text` shows them. Raises ConfigError."""
        return self._shown(self.parse(data))

    def _shown(self, keys: Iterable[str]) -> dict[str, str | None]:
        now = self.parse(self.text())
        return {key: now.get(key) for key in keys}

    def update(
        self, changes: dict[str, str], check: Callable[[C], object] = lambda config: None
    ) -> list[str]:
        """Take over all of `changes`, or nothing: ConfigError if a value is wrong, or if `check(config)` raises
        it because they contradict each other. Returns the keys that have no effect here, which RocketMQ accepts as
        well."""
        fields = {field.encode_name: field for field in schema_fields(type(self.config))}
        values, ignored = {}, []
        for key, text in changes.items():
            if key not in fields:
                ignored.append(key)
                continue
            rule = get_args(fields[key].type)[1]
            try:
                values[fields[key].name] = rule.parse(text)
            except ValueError as error:
                raise ConfigError(f"{key}: {error}; allowed: {rule.allowed}") from None
        config = msgspec.structs.replace(self.config, **values)
        check(config)
        self._changes |= {key: text for key, text in changes.items() if key in fields}
        self._put(config)
        for listener in self._update_listeners:
            listener()
        return ignored

    def adopt(self, values: dict[str, tuple[str, object]]) -> None:
        """Take over what the file says now. values: key -> (field, value), checked."""
        for key in values:
            self._changes.pop(key, None)
        if values:
            self._put(msgspec.structs.replace(self.config, **dict(values.values())))

    def take_reread(
        self, take_file: Callable[[], object], before: C, now: C, effective: Collection[str]
    ) -> Reread:
        """Take over what has changed in a file that was read again.

        - take_file: has this know the file's new content, so that the next change by request keeps that
        - before: what the last reading gave
        - now: what this one gives
        - effective: keys that take effect at once
        """
        requested = self._changes
        take_file()
        edited = self._edited_since(requested)
        changed = {
            field.encode_name: field.name
            for field in schema_fields(type(now))
            if getattr(now, field.name) != getattr(self.config, field.name)
            and (getattr(now, field.name) != getattr(before, field.name) or field.encode_name in edited)
        }
        taken = sorted(changed.keys() & set(effective))
        shown_before = self._shown(taken)
        self.adopt({key: (changed[key], getattr(now, changed[key])) for key in taken})
        return Reread(shown_before, self._shown(taken), sorted(changed.keys() - set(effective)))

    def _edited_since(self, requested: Mapping[str, str]) -> set[str]:
        """Keys of these changes for which the file says something else once it was taken: an editor's word, and be
        it what the reading before said."""
        said = {entry.key: entry.value for entry in parse_properties(self._file, REQUEST)}
        dropped = requested.keys() - self._changes.keys()
        return {key for key in dropped if said.get(key) != requested[key]}

    def _put(self, config: C) -> None:
        self.config = config
        for listener in self._listeners:
            listener(self.config)

    def take_file(self, data: bytes) -> None:
        """Take over the file's content, so that `file_bytes` keeps what isn't changed."""
        self._file = data

    def take_edited_file(self, data: bytes) -> None:
        """Take over the file's content as an editor has left it, which outranks earlier changes."""
        check_text(data, REQUEST)
        keys = {entry.key for entry in parse_properties(data, REQUEST)}
        self._changes = {key: text for key, text in self._changes.items() if key not in keys}
        self._file = data

    def file_bytes(self) -> bytes:
        """The file with all changes."""
        return with_properties(self._file, self._changes)
