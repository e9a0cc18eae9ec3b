"""From a file and overrides to a checked configuration, with the warnings an operator should see.

The file is RocketMQ's own; `--set key=value` overrides come from the command line, name servers and RocketMQ's
home from the environment if neither sets them. Errors name the file and line of the entry they are about. Unknown
keys (RocketMQ ignores them) become one warning with the nearest known name each, because a misspelt key is a
setting that silently has no effect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, get_args

import msgspec
from msgspec.structs import FieldInfo

from hatwisted.config.askedkeys import PROTECTION_KEYS, lacked_protection, seeming_protection
from hatwisted.config.errors import ConfigError
from hatwisted.config.host import Host
from hatwisted.config.javaproperties import check_text, format_property, parse_properties
from hatwisted.config.rocketmqkeys import (
    FORMER_BROKER_KEYS,
    UNUSED_BROKER_KEYS,
    UNUSED_NAMESRV_KEYS,
    unsupported_key,
)
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.config.tlskeys import FILE_KEY, NOT_IN_FILE, TlsKeys, tls_advice
from hatwisted.config.values import Rule, Secret
from hatwisted.wire.javaproperties import TLS_FILE, Entry

C = TypeVar("C", bound=msgspec.Struct)

# How alike two keys must be to suggest one for the other: "brokerRol" and "brokerRole", not "foo" and "flow".
SIMILARITY = 0.7

# Unknown keys that are named in the warning, and for which one like it is looked for.
NAMED = 20

# What keys are made of.
NAME = re.compile(r"[\w.-]+")

# Shown in place of file and line for an entry that comes from no file.
OVERRIDE = 0
ENVIRONMENT = -1
VARIABLES = {"NAMESRV_ADDR": "namesrvAddr", "ROCKETMQ_HOME": "rocketmqHome"}
"""Of the environment, as RocketMQ's scripts set them -> the key that each stands for."""
PLACES = {OVERRIDE: "--set", ENVIRONMENT: "environment"}


class Source(NamedTuple):
    """The effective text of every key that was given, and its origin. `name`: the file, or what stands for it;
    `files`: key -> another file that its entry is in; `left_out`: "file:line" -> one that doesn't count there."""

    name: str
    entries: dict[str, Entry]
    files: Mapping[str, str] = {}
    left_out: Mapping[str, Entry] = {}

    def where(self, key: str) -> str:
        """`file:line` of the entry, or what stands for it; the file alone if the key isn't there."""
        entry = self.entries.get(key)
        if entry is None:
            return self.name
        return PLACES.get(entry.line) or f"{self.files.get(key, self.name)}:{entry.line}"


class Loaded(NamedTuple, Generic[C]):
    """A configuration, what to warn of, and the source for messages that name a line."""

    config: C
    warnings: list[str]
    source: Source


def load_broker_config(
    path: str | None,
    overrides: Sequence[str] = (),
    *,
    host: Host,
    environ: Mapping[str, str] | None = None,
) -> Loaded[BrokerConfig]:
    """A broker's configuration.

    - path: the file; None: defaults alone
    - overrides: `key=value`
    - host: the machine that the broker will run on
    - environ: the environment; its NAMESRV_ADDR and ROCKETMQ_HOME count where nothing else is set

    Raises ConfigError: file not readable, wrong value, malformed override.
    """
    source = read_source(path, overrides)
    for variable, key in VARIABLES.items():
        value = (environ or {}).get(variable, "").strip()
        if value and key not in source.entries:
            source.entries[key] = Entry(key, value, ENVIRONMENT)
    renamed = _rename_former_keys(source)
    loaded = _load(BrokerConfig, host.of_broker(), UNUSED_BROKER_KEYS, source)
    return Loaded(loaded.config, [*renamed, *loaded.warnings], source)


def with_path(loaded: Loaded[BrokerConfig], path: str | None) -> Loaded[BrokerConfig]:
    """The same, with run-time changes going into the file it came from, unless it names another."""
    config, warnings, source = loaded
    if path is not None and config.broker_config_path is None:
        config = msgspec.structs.replace(config, broker_config_path=os.path.abspath(path))
    return Loaded(config, warnings, source)


def load_namesrv_config(
    path: str | None, overrides: Sequence[str] = (), *, host: Host
) -> Loaded[NamesrvConfig]:
    """The same for a name server.

    - path: of the file; None: defaults
    - overrides: "key=value", which take precedence over the file
    - host: the machine it will run on
    """
    return _load(NamesrvConfig, host.of_name_server(), UNUSED_NAMESRV_KEYS, read_source(path, overrides))


def read_source(path: str | None, overrides: Sequence[str]) -> Source:
    """The file's entries with the overrides on top."""
    entries = {} if path is None else _file_entries(path)
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not NAME.fullmatch(key.strip()):
            # Not what follows the name: that's the value if another sign has the place of =, and may be a secret.
            name = NAME.match(text.strip())
            raise ConfigError(f"{PLACES[OVERRIDE]}{f' {name[0]}' if name else ''}: must be key=value")
        entries[key.strip()] = Entry(key.strip(), value.strip(), OVERRIDE)
    tls_file = _tls_file(entries.pop(FILE_KEY, None))
    files: dict[str, str] = {}
    left_out = {}
    for key, entry in _file_entries(tls_file).items() if tls_file else ():
        # As in RocketMQ the file counts more; what's said on the command line is said to this server alone.
        if key in NOT_IN_FILE:
            if key not in entries:
                left_out[f"{tls_file}:{entry.line}"] = entry
        elif key not in entries or entries[key].line != OVERRIDE:
            entries[key], files[key] = entry, str(tls_file)
    return Source(path or "configuration", entries, files, left_out)


def _file_entries(path: str) -> dict[str, Entry]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}") from None
    check_text(data, path)
    return {entry.key: entry for entry in parse_properties(data, path)}


def _tls_file(named: Entry | None) -> str | None:
    """RocketMQ's file of TLS properties, if there is one."""
    if named is not None:
        return named.value.strip() or None
    return TLS_FILE if os.path.exists(TLS_FILE) else None


def effective_text(loaded: Loaded[C]) -> str:
    """The whole effective configuration as a properties file, one key a line, ends with a newline."""
    lines = [_line(field, getattr(loaded.config, field.name)) for field in schema_fields(type(loaded.config))]
    if isinstance(loaded.config, BrokerConfig):
        lines.append(f"# haListenPort={loaded.config.ha_listen_port} (always listenPort + 1)")
    return "\n".join(lines) + "\n"


def _load(
    schema: type[C], defaults: Mapping[str, object], unused: frozenset[str], source: Source
) -> Loaded[C]:
    by_key = {field.encode_name: field for field in schema_fields(schema)}
    values: dict[str, Any] = {**defaults}
    unknown: list[Entry] = []
    warnings: list[str] = []
    for entry in source.entries.values():
        field = by_key.get(entry.key)
        if field is not None:
            values[field.name] = _value(field, entry, source)
        elif entry.key in unused:
            warnings += _unused_warning(entry, source)
        elif entry.key not in PROTECTION_KEYS and lacks_protection(entry, by_key) is None:
            unknown.append(entry)
    if unknown:
        warnings.append(_unknown_warning(unknown, source, schema, [*by_key, *unused, *PROTECTION_KEYS]))
    config = schema(**values)
    if isinstance(config, TlsKeys):
        for key, text in tls_advice(config).items():
            warnings.append(f"{source.where(key)}: {key}={source.entries[key].value}: {text}")
    return Loaded(config, warnings, source)


def lacks_protection(entry: Entry, known: Container[str]) -> str | None:
    """What isn't done though an entry asks for it, or seems to; None if it doesn't, or if that is done.

    - entry: of a configuration
    - known: the server's keys
    """
    lacked = lacked_protection(entry.key, entry.value, known)
    if lacked is not None or entry.key in known or entry.key in _anybodys_keys():
        return lacked
    return seeming_protection(entry.key, entry.value, known)


@cache
def _anybodys_keys() -> frozenset[str]:
    ours = (field.encode_name for each in (BrokerConfig, NamesrvConfig) for field in schema_fields(each))
    return frozenset((*ours, *UNUSED_BROKER_KEYS, *UNUSED_NAMESRV_KEYS, *FORMER_BROKER_KEYS))


def _rename_former_keys(source: Source) -> list[str]:
    """Read entries in former spellings as the current ones, unless these are there too; gives the warnings."""
    warnings = []
    for former, key in FORMER_BROKER_KEYS.items():
        if former not in source.entries:
            continue
        where = source.where(former)
        entry = source.entries.pop(former)
        if key in source.entries:
            warnings.append(
                f"{where}: {former} is ignored: {source.where(key)} has {key}, its current spelling"
            )
        else:
            source.entries[key] = entry._replace(key=key)
            warnings.append(f"{where}: {former} is read as {key}, its current spelling")
    return warnings


@cache
def schema_fields(schema: type) -> tuple[FieldInfo, ...]:
    """A schema's keys. Kept: msgspec would evaluate all of the class's annotations again at each call."""
    return msgspec.structs.fields(schema)


@cache
def secret_keys(schema: type) -> frozenset[str]:
    """The keys whose values are never shown."""
    return frozenset(each.encode_name for each in schema_fields(schema) if isinstance(_rule(each), Secret))


def _rule(field: FieldInfo) -> Rule:
    rule: Rule = get_args(field.type)[1]
    return rule


def _value(field: FieldInfo, entry: Entry, source: Source) -> object:
    rule = _rule(field)
    try:
        return rule.parse(entry.value)
    except ValueError as error:
        where = source.where(entry.key)
        raise ConfigError(f"{where}: {entry.key}: {error}; allowed: {rule.allowed}") from None


def _unused_warning(entry: Entry, source: Source) -> list[str]:
    found = unsupported_key(entry.key, entry.value)
    if found is None:
        return []
    line = f"{source.where(entry.key)}: {entry.key}={entry.value}: {found.text}"
    if found.refuse:
        raise ConfigError(line)
    return [line]


def _unknown_warning(
    unknown: Sequence[Entry], source: Source, schema: type[msgspec.Struct], known: Sequence[str]
) -> str:
    by_lower = {key.lower(): key for key in known}
    whose = "a broker's" if schema is NamesrvConfig else "a name server's"
    other = BrokerConfig if schema is NamesrvConfig else NamesrvConfig
    others = {field.encode_name for field in schema_fields(other)}

    def described(entry: Entry) -> str:
        place = PLACES.get(entry.line) or f"line {entry.line}"
        if entry.key in others:
            return f"{entry.key} ({place}, {whose} key)"
        close = get_close_matches(entry.key.lower(), by_lower, 1, SIMILARITY)
        return f"{entry.key} ({place}" + (f", did you mean {by_lower[close[0]]}?)" if close else ")")

    more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
    named = ", ".join(map(described, unknown[:NAMED]))
    return f"{source.name}: unknown keys are ignored: {named}{more}"


def _line(field: FieldInfo, value: object) -> str:
    if value is None:
        return f"# {field.encode_name} is not set"
    if isinstance(_rule(field), Secret):
        return f"# {field.encode_name} is set, and not shown"
    if isinstance(value, Enum):
        value = value.value
    elif isinstance(value, bool):
        value = str(value).lower()
    return format_property(field.encode_name, str(value))
