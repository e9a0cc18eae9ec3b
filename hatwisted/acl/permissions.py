"""What an account may do with a topic or a group: RocketMQ's Permission."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntFlag
from typing import Final

from hatwisted.wire.topics import RETRY_PREFIX


class Permission(IntFlag):
    """Publish to a topic; subscribe to a topic, or consume as a group; or neither."""

    DENY = 1
    PUB = 4
    SUB = 8

    def allows(self, needed: Permission) -> bool:
        """Is `needed` among them?"""
        return not self & Permission.DENY and bool(self & needed)


_WORDS: Final[Mapping[str, Permission]] = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}

GROUP: Final = RETRY_PREFIX
"""Before a group's name where topics and groups stand in one table: RocketMQ names a group by its retry topic, so
that who may consume as the group may read that topic."""


def permission_of(word: str | None) -> Permission:
    """DENY for what isn't one of RocketMQ's words, and for nothing."""
    return _WORDS.get((word or "").strip(), Permission.DENY)


def check_word(word: str) -> None:
    """Raises ValueError if `word` is none of RocketMQ's."""
    if word.strip() not in _WORDS:
        raise ValueError(f"permission {word!r} must be one of {', '.join(_WORDS)}")


def parse_resources(entries: Iterable[str]) -> dict[str, Permission]:
    """Name -> permission of entries like `topicA=PUB|SUB`. Raises ValueError."""
    found = {}
    for entry in entries:
        name, equals, word = entry.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{entry!r} must be NAME=PERMISSION, for example topicA=SUB")
        check_word(word)
        found[name.strip()] = permission_of(word)
    return found
