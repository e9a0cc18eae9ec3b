"""JSON with invalid text in it, made valid: one broken message key is no reason to fail all that its producer has
in flight."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = {code: f"\\u{code:04x}" for code in range(32) if chr(code) not in "\t\n\r"}
_SURROGATES: Final = r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
_ESCAPE: Final = re.compile(rf"{_SURROGATES}|(?P<half>\\u[dD][89a-fA-F][\da-fA-F]{{2}})|\\.", re.DOTALL)


def mended_json(header: bytes) -> bytes:
    """A JSON header with invalid text, fixed as RocketMQ's parser would read it: U+FFFD for broken UTF-8, "?"
    for half a surrogate pair, bare control characters (except white space between values) as escapes."""
    text = header.decode("utf-8", "replace").translate(_CONTROLS)
    return _ESCAPE.sub(lambda match: "?" if match["half"] else match[0], text).encode()
