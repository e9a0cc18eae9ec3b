"""What an account may do with a topic or a group: RocketMQ's Permission.

Plain numbers, since every request of every client is checked: members of an IntFlag take ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hatwisted.wire.topics import RETRY_PREFIX

DENY: Final = 1
PUB: Final = 4
"""Publish to a topic."""
SUB: Final = 8
"""Subscribe to a topic, or consume as a group."""

_WORDS: Final[Mapping[str, int]] = {
    "DENY": DENY,
    "PUB": PUB,
    "SUB": SUB,
    "PUB|SUB": PUB | SUB,
    "SUB|PUB": PUB | SUB,
}

GROUP: Final = RETRY_PREFIX
"""Before a group's name where topics and groups stand in one table: RocketMQ names a group by its retry topic, so
that who may consume as the group may read that topic."""


def permission_of(word: str | None) -> int:
    """DENY for what isn't one of RocketMQ's words, and for nothing."""
    return _WORDS.get((word or "").strip(), DENY)


def check_word(word: str) -> None:
    """Raises ValueError if `word` is none of RocketMQ's."""
    if word.strip() not in _WORDS:
        raise ValueError(f"permission {word!r} must be one of {', '.join(_WORDS)}")


def parse_resources(entries: Iterable[str]) -> dict[str, int]:
    """Name -> permissions of entries like `topicA=PUB|SUB`. Raises ValueError."""
    found = {}
    for entry in entries:
        name, equals, word = entry.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{entry!r} must be NAME=PERMISSION, for example topicA=SUB")
        check_word(word)
        found[name.strip()] = permission_of(word)
    return found
