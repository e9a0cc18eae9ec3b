"""Types of a command's fields that no header has: only we give them values.

msgspec decodes a header straight into a command, and takes whatever it finds under a field's name. To it, these
are of a class that nothing in JSON becomes; a header that names such a field is refused by the quick decoders, and
the lenient one, which knows the protocol's fields only, reads it as if the name weren't there. Whoever adds a
field that isn't the protocol's gives it one of these types: what a signature covers, for one, is nothing that a
peer may say.

Rejected: names "that no peer sends" (whoever means harm sends them), and values set anew after decoding (one path
is soon forgotten).
"""

from __future__ import annotations

from typing import TYPE_CHECKING


class NotInJson:
    """What msgspec looks for instead of the value. There are none."""


if TYPE_CHECKING:
    OwnBytes = bytes
    OwnFlag = bool
    OwnTexts = dict[str, str]
else:
    OwnBytes = OwnFlag = OwnTexts = NotInJson
