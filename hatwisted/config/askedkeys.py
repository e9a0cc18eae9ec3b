"""Keys by which a configuration asks for protection: those that get it, those that don't, and what looks like one
of them. RocketMQ ignores a key that it doesn't know; a server that did the same with these would be open against
its owner's will.

A key looks like another that has the same words in another order or spelling (`tlsServerMode`, `enabledAcl`), or
has a letter too many, too few, another one, or two swapped (`tls.server.mod`). Rejected: difflib's ratio, which
takes seconds for a file of thousands of unknown keys, and takes short keys of another meaning for each other.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple


class MissingProtection(NamedTuple):
    """text: what isn't done; harmless: values, in lower case, that don't ask for it."""

    text: str
    harmless: tuple[str, ...] = ("", "false")


NO_CALLS = MissingProtection(
    "a name server calls nobody; its port is encrypted with tls.server.mode=enforcing"
)
PROTECTION_KEYS = {
    "useTLS": NO_CALLS,
    "tls.enable": NO_CALLS,
    "authenticationEnabled": MissingProtection(
        "not the accounts of 5.x, but those of aclEnable are understood"
    ),
    "authorizationEnabled": MissingProtection(
        "not the accounts of 5.x, but those of aclEnable are understood"
    ),
}
"""They ask for protection that isn't implemented, or not on this kind of server: the first two are a broker's
keys, the last two are 5.x's. See `protection`."""

GIVEN_KEYS = frozenset(
    """
    aclEnable listenAllowList haAllowList adminAllowList haTlsEnable haTlsPeers useTLS tls.enable tls.server.mode
    tls.server.authClient tls.server.need.client.auth tls.client.authServer metricsTlsMode dashboardTlsMode
    """.split()
)
"""They ask for protection that is given, if they are written so: RocketMQ ignores a key in another case, and a
server that did the same would be open."""
NOT_ASKED = ("", "false", "none", "disabled", "permissive", "*")
"""Their values, in lower case, that ask for nothing."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SAME: Final = {"enabled": "enable", "allowed": "allow", "ssl": "tls"}
"""A word -> another one that people take for it."""
_LISTS: Final = "allowlist"
_LONGEST: Final = 64
"""Characters of a key that may look like one of these."""


def lacked_protection(key: str, value: str, known: Container[str]) -> str | None:
    """What isn't done though an entry asks for it, whatever the case of its key.

    - key, value: of the entry
    - known: the server's keys

    None: it asks for nothing, or gets it.
    """
    if key in known:
        return None
    lower, asked = key.lower(), value.strip().lower()
    for each in GIVEN_KEYS:
        if each.lower() == lower and each in known:
            return None if asked in NOT_ASKED else f"the key is {each}"
    for each, missing in PROTECTION_KEYS.items():
        if each.lower() == lower:
            return None if asked in missing.harmless else missing.text
    return None


def seeming_protection(key: str, value: str, known: Container[str]) -> str | None:
    """As `lacked_protection`, of a key that no server has: what it seems to ask for."""
    asked = value.strip().lower()
    if asked in NOT_ASKED or len(key) > _LONGEST:
        return None
    for each in _looking_like(key):
        if each in known:
            return f"the key is {each}"
        if each in PROTECTION_KEYS:
            return PROTECTION_KEYS[each].text
    if asked == "enforcing":
        return "the key is tls.server.mode"
    if _LISTS in _flat(_words(key)):
        return f"the keys are {', '.join(sorted(each for each in GIVEN_KEYS if _LISTS in each.lower()))}"
    return None


def _looking_like(key: str) -> Iterator[str]:
    words = _words(key)
    likenesses = _likenesses()
    for likeness in (_sorted(words), *_with_one_less(_flat(words))):
        yield from likenesses.get(likeness, ())


@cache
def _likenesses() -> Mapping[str, tuple[str, ...]]:
    """What keys that look alike have in common -> the keys."""
    found: dict[str, tuple[str, ...]] = {}
    for key in (*sorted(GIVEN_KEYS), *PROTECTION_KEYS):
        words = _words(key)
        for likeness in {_sorted(words), *_with_one_less(_flat(words))}:
            found[likeness] = (*found.get(likeness, ()), key)
    return found


def _words(key: str) -> list[str]:
    return [_SAME.get(word.lower(), word.lower()) for word in _WORD.findall(key)]


def _sorted(words: Iterable[str]) -> str:
    return " ".join(sorted(words))


def _flat(words: Iterable[str]) -> str:
    return "".join(words)


def _with_one_less(text: str) -> Iterator[str]:
    """The text, and the text without each of its letters."""
    yield text
    for index in range(len(text)):
        yield text[:index] + text[index + 1 :]
