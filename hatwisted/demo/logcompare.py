"""Are two commit logs the same, byte for byte? Blocking: run it in a thread."""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

from hatwisted.wire.layout import parse_file_name

CHUNK = 1024 * 1024  # bytes compared at a time


class Comparison(NamedTuple):
    """`size` bytes are equal; `differs_at` is the first offset that isn't, None if all are; `digest` is the
    SHA-256 of the equal bytes, hexadecimal."""

    size: int
    differs_at: int | None
    digest: str


def compare_logs(one: str, other: str, end: int) -> Comparison:
    """Compare two commit log folders from the start of the first. A file that one of them lacks differs at its
    first byte.

    - one, other: the folders
    - end: offset to stop at
    """
    digest = hashlib.sha256()
    size = 0
    for start, name in _files(one):
        if start >= end:
            break
        length = min(os.stat(os.path.join(one, name)).st_size, end - start)
        equal = _equal_bytes(os.path.join(one, name), os.path.join(other, name), length, digest)
        size += equal
        if equal < length:
            return Comparison(size, start + equal, digest.hexdigest())
    return Comparison(size, None, digest.hexdigest())


def _files(folder: str) -> list[tuple[int, str]]:
    named = ((parse_file_name(name), name) for name in os.listdir(folder))
    return sorted((start, name) for start, name in named if start is not None)


def _equal_bytes(path: str, other: str, length: int, digest: hashlib._Hash) -> int:
    """How many of the first `length` bytes are equal; they are added to the digest."""
    if not os.path.exists(other):
        return 0
    equal = 0
    with open(path, "rb") as left, open(other, "rb") as right:
        while equal < length:
            wanted = min(CHUNK, length - equal)
            mine, theirs = left.read(wanted), right.read(wanted)
            if mine != theirs or not mine:
                same = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
                same = min(len(mine), len(theirs)) if same is None else same
                digest.update(mine[:same])
                return equal + same
            digest.update(mine)
            equal += len(mine)
    return equal
