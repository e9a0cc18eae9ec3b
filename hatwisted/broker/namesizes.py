"""What names take in memory: clients may give names of any length, and of characters of any width."""

from __future__ import annotations

NAME_OF_ONE = 256
"""So many bytes of a group's name count as one membership more. RocketMQ's have 255 characters at most."""


def name_bytes(name: str) -> int:
    """Of its characters, at most."""
    return len(name) if name.isascii() else 4 * len(name)


def memberships_of(name: str) -> int:
    """Memberships that one in a group of this name counts as."""
    return 1 + name_bytes(name) // NAME_OF_ONE
