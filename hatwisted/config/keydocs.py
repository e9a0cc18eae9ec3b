"""What each key means, from the schema itself: its type, default, range, and the words beside its field.

The words are the string after a field in the source, as documentation tools read them, and say first whose a key
is that RocketMQ 4.9.7 doesn't have. Sections are the comments of the source that begin with dashes.
"""

from __future__ import annotations

import ast
import inspect
import re
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Final, NamedTuple, get_args

import msgspec

from hatwisted.config.changing import Change, change_of
from hatwisted.config.load import SIMILARITY, schema_fields
from hatwisted.config.rocketmqkeys import (
    FORMER_BROKER_KEYS,
    UNUSED_BROKER_KEYS,
    UNUSED_NAMESRV_KEYS,
    unsupported_key,
)
from hatwisted.config.schema import BrokerConfig, NamesrvConfig
from hatwisted.config.values import Secret

SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"broker": BrokerConfig, "name server": NamesrvConfig}


OF_THE_HOST: Final = {
    "broker_name": "the host's name",
    "broker_ip1": "the address of the default route",
    "broker_ip2": "the address of the default route",
    "store_path_root_dir": "~/store",
    "kv_config_path": "~/namesrv/kvConfig.json",
}
"""Defaults that a machine decides: see `host`."""
ORIGINS: Final = {"Ours": "ours", "RocketMQ 5.x": "RocketMQ 5.x"}
"""How words begin -> whose the key is."""
ROCKETMQ: Final = "RocketMQ"
SECTION: Final = re.compile(r"    # -- ")


class KeyDoc(NamedTuple):
    """One key of one server.

    default: as text, None: not set; words: from the schema; origin: whose it is; change: what a change takes;
    section: what it's about; secret: it's never shown.
    """

    key: str
    server: str
    default: str | None
    allowed: str
    words: str
    origin: str
    change: Change
    section: str
    secret: bool

    @property
    def meaning(self) -> str:
        """The words without whose it is."""
        begin, colon, rest = self.words.partition(": ")
        return rest[:1].upper() + rest[1:] if colon and begin in ORIGINS else self.words


def key_docs(key: str) -> list[KeyDoc]:
    """A key as brokers and as name servers have it, whatever its case; empty: neither does."""
    wanted = key.lower()
    return [
        _doc(server, schema, field)
        for server, schema in SCHEMAS.items()
        for field in schema_fields(schema)
        if field.encode_name.lower() == wanted
    ]


def all_keys(server: str = "broker") -> list[KeyDoc]:
    """Every key of a server, in the schema's order."""
    schema = SCHEMAS[server]
    return [_doc(server, schema, field) for field in schema_fields(schema)]


def without_effect(key: str) -> str | None:
    """What to know of a key of RocketMQ's that does nothing here; None: it isn't one."""
    former = {each.lower(): now for each, now in FORMER_BROKER_KEYS.items()}.get(key.lower())
    if former is not None:
        return f"a former spelling of {former}"
    known = {each.lower(): each for each in UNUSED_BROKER_KEYS | UNUSED_NAMESRV_KEYS}.get(key.lower())
    if known is None:
        return None
    found = unsupported_key(known, "true")
    return f"one of RocketMQ's keys, without effect here{': ' + found.text if found else ''}"


def nearest(key: str) -> list[str]:
    """Keys that are spelt nearly so."""
    names = {
        field.encode_name.lower(): field.encode_name
        for each in SCHEMAS.values()
        for field in schema_fields(each)
    }
    return [names[each] for each in get_close_matches(key.lower(), names, 3, SIMILARITY)]


def _doc(server: str, schema: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> KeyDoc:
    rule = get_args(field.type)[1]
    default = field.default
    if isinstance(default, Enum):
        default = default.value
    elif isinstance(default, bool):
        default = str(default).lower()
    default = OF_THE_HOST.get(field.name, default)
    secret = isinstance(rule, Secret)
    told = None if default is None or secret else str(default)
    words, section = _words(schema)[field.name]
    key = field.encode_name
    origin = ORIGINS.get(words.partition(":")[0], ROCKETMQ)
    return KeyDoc(key, server, told, rule.allowed, words, origin, change_of(server, key), section, secret)


@cache
def _words(schema: type) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for each in reversed(schema.__mro__):
        if each.__module__.startswith("hatwisted."):
            found |= _words_in(each)
    return found


def _words_in(schema: type) -> dict[str, tuple[str, str]]:
    """Of each field of one class: its words, and the section it stands in."""
    source = inspect.getsource(schema)
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    lines, found = source.splitlines(), {}
    sections = {number: line.strip()[5:] for number, line in enumerate(lines, 1) if SECTION.match(line)}
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        match node, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                above = [title for number, title in sections.items() if number < node.lineno]
                found[name] = " ".join(words.split()), above[-1] if above else ""
    return found
