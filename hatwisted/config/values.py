"""What a configuration value may be: one small rule per kind, attached to the types of `schema`'s fields.

A rule turns text into a value or raises ValueError with what is wrong; `allowed` completes the sentence for
the operator. RocketMQ itself ignores a value that it can't parse and uses its default; a typo
in `brokerRole` then silently runs an ASYNC_MASTER, so here it prevents the start.

Rejected: msgspec's own constraints. They would do the checks, but their errors speak of `$.path` and JSON types.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import Enum
from typing import Annotated, NamedTuple, Protocol

from hatwisted.wire.networks import is_network_list

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Rule(Protocol):
    """How the text of one kind of value is read and written."""

    @property
    def allowed(self) -> str:
        """What is accepted, for an error message."""

    def parse(self, text: str) -> object:
        """The value; raises ValueError saying what is wrong with `text`."""


class Whole(NamedTuple):
    """A whole number in [low, high]. `clamp`: take the nearest bound instead of refusing, as RocketMQ does
    for this key; `step`: rounded up to a multiple of it, likewise."""

    low: int = 0
    high: int = INT_MAX
    unit: str = ""
    clamp: bool = False
    step: int = 1

    @property
    def allowed(self) -> str:
        high = {INT_MAX: "2^31-1", LONG_MAX: "2^63-1"}.get(self.high, str(self.high))
        return f"a whole number from {self.low} to {high}" + (f" ({self.unit})" if self.unit else "")

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text.strip(), re.ASCII):
            raise ValueError(f"can't be '{text}'")
        value = -(-int(text) // self.step) * self.step
        if self.clamp:
            return min(max(value, self.low), self.high)
        if value < self.low:
            raise ValueError(f"{value} is too small")
        if value > self.high:
            raise ValueError(f"{value} is too big")
        return value


class Flag(NamedTuple):
    """true or false, in any case."""

    allowed: str = "true or false"

    def parse(self, text: str) -> bool:
        value = {"true": True, "false": False}.get(text.strip().lower())
        if value is None:
            raise ValueError(f"can't be '{text}'")
        return value


class Choice(NamedTuple):
    """One member of an enumeration, by its value. `any_case`: the values are lower case, the text needn't be."""

    members: type[Enum]
    any_case: bool = False

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(str(member.value) for member in self.members)

    def parse(self, text: str) -> Enum:
        try:
            return self.members(text.strip().lower() if self.any_case else text.strip())
        except ValueError:
            raise ValueError(f"can't be '{text}'") from None


class Text(NamedTuple):
    """Free text, kept with its blanks, not empty."""

    allowed: str = "some text"

    def parse(self, text: str) -> str:
        if not text:
            raise ValueError("can't be empty")
        return text


class Secret(NamedTuple):
    """Text that is never shown; an empty one means that the key isn't set."""

    allowed: str = "some text, or nothing"

    def parse(self, text: str) -> str | None:
        return Hidden(text) if text else None


class Hidden(str):
    """A text that doesn't show when a value that holds it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(hidden)"


class Checked(NamedTuple):
    """Text of a given form; surrounding blanks are ignored."""

    allowed: str
    accepts: Callable[[str], bool]

    def parse(self, text: str) -> str:
        stripped = text.strip()
        if not self.accepts(stripped):
            raise ValueError(f"can't be '{text}'" if stripped else "can't be empty")
        return stripped


class Path(Checked):
    """A path, made absolute: a daemon changes to its `--rundir` after the configuration is read."""

    def parse(self, text: str) -> str:
        """See Rule."""
        return os.path.abspath(super().parse(text))


class Optional(NamedTuple):
    """As `rule`, except that an empty value means the key isn't set."""

    rule: Rule

    @property
    def allowed(self) -> str:
        return self.rule.allowed + ", or nothing"

    def parse(self, text: str) -> object:
        return self.rule.parse(text) if text.strip() else None


def is_host_port(text: str) -> bool:
    """`host:port`, an IPv6 address with or without brackets included (the port follows the last colon)."""
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isascii() and port.isdigit() and 0 < int(port) < 65536


def is_host_port_list(text: str) -> bool:
    """`host:port` several times, separated by `;`."""
    return all(is_host_port(part.strip()) for part in text.split(";") if part.strip()) and bool(
        text.strip(" ;")
    )


def is_hour_list(text: str) -> bool:
    """Hours of the day separated by `;`, such as `04` or `04;16`."""
    return all(re.fullmatch(r"[01]?[0-9]|2[0-3]", part) for part in text.rstrip(";").split(";"))


def is_delay_levels(text: str) -> bool:
    """Durations separated by blanks, each a number and one of s, m, h, d. At most nine digits: the time at which a
    message is due has to fit its queue's entry, or no queue gets anything more."""
    return all(re.fullmatch(r"[0-9]{1,9}[smhd]", part, re.ASCII) for part in text.split(" "))


def is_one_path(text: str) -> bool:
    """A single path; RocketMQ separates several folders by commas."""
    return bool(text) and "," not in text


HOST_PORT = Checked("host:port", is_host_port)
HOST_PORT_LIST = Checked("host:port, several separated by ';'", is_host_port_list)
NETWORKS = Checked(
    "networks such as 10.1.0.0/16, single addresses, or * for everybody, separated by ';'", is_network_list
)
HOURS = Checked("hours from 00 to 23, several separated by ';'", is_hour_list)
DELAY_LEVELS = Checked("durations such as 1s 5m 2h, separated by single spaces", is_delay_levels)
PATH = Path("one path (several, separated by commas, are not supported)", is_one_path)
PORT = Whole(1, 65535)
MILLISECONDS = Whole(1, unit="ms")
BYTES = Whole(1, unit="bytes")
COUNT = Whole(0)

# Kinds that fields of several classes share: a type, and the rule that parses its text.
Bool = Annotated[bool, Flag()]
Count = Annotated[int, COUNT]
NetworkList = Annotated[str | None, Optional(NETWORKS)]
