"""Properties of a send, as the log is to have them.

RocketMQ 4.9.7 removes a single message's WAIT and leaves every other byte, or all of it where it rewrites
the properties anyway (delayed and half messages); all get the CLUSTER. The common case is text in and text
out: parsing properties of every message would cost more than its append.
"""

from __future__ import annotations

from collections.abc import Collection

from hatwisted.kernel import decode_batch
from hatwisted.store.log.put import Entry
from hatwisted.wire import layout
from hatwisted.wire.batch import BATCH_ENTRY_FIXED
from hatwisted.wire.properties import decode_properties

_END = "\x02"
_WAIT = layout.PROPERTY_WAIT + "\x01"
_USUAL_WAIT = f"{_END}{_WAIT}true{_END}"
"""How Java producers say that they want to wait, between two other properties."""
_UNIQ_KEY = layout.PROPERTY_UNIQ_KEY + "\x01"


class SentProperties:
    """cluster: brokerClusterName, which every stored message carries."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._pair = f"{layout.PROPERTY_CLUSTER}\x01{cluster}"

    @property
    def pair(self) -> bytes:
        """The property that every stored message has at its end."""
        return self._pair.encode()

    def stored(self, text: str) -> tuple[bytes, bool]:
        """Those of a single message, and whether to wait."""
        before, found, after = text.partition(_USUAL_WAIT)
        if found and after:
            return f"{before}\x02{after}{'' if after[-1] == _END else _END}{self._pair}".encode(), True
        wait = True
        # The names of others may end like it.
        at = 0 if text.startswith(_WAIT) else text.find(_END + _WAIT) + 1
        if at or text.startswith(_WAIT):
            stop = text.find("\x02", at)
            stop = len(text) if stop < 0 else stop
            wait = text[at + len(_WAIT) : stop].lower() == "true"
            text = text[:at] + text[stop + 1 :]
        if text and text[-1] != "\x02":
            text += "\x02"
        return (text + self._pair).encode(), wait

    def read(self, text: str) -> tuple[dict[str, str], bool]:
        """Those of a message that will be rewritten, by name (it keeps its WAIT, as in 4.9.7), and whether to
        wait."""
        properties = decode_properties(text.encode())
        wait = properties.get(layout.PROPERTY_WAIT, "true").lower() == "true"
        properties[layout.PROPERTY_CLUSTER] = self._cluster
        return properties, wait

    def batch(self, text: str, body: bytes) -> tuple[Collection[Entry], bytes, int, bool]:
        """Members of a batch, the properties put after each one's own (the request's, but not a batch-level
        UNIQ_KEY, which would give every member the same id), bytes of content in all, and whether to wait.
        Raises CorruptBatch."""
        shared = [pair for pair in text.split("\x02") if pair and not pair.startswith(_UNIQ_KEY)]
        wait = all(pair[len(_WAIT) :].lower() == "true" for pair in shared if pair.startswith(_WAIT))
        suffix = "\x02".join([*shared, self._pair]).encode()
        entries, unended = decode_batch(body)
        size = len(body) + len(entries) * (len(suffix) - BATCH_ENTRY_FIXED)
        if unended == len(entries):
            suffix = b"\x02" + suffix  # 4.9.1 to 5.1 clients leave the last separator out
            size += len(entries)
        elif unended:
            entries = [
                (flag, member, own if own[-1:] in (b"", b"\x02") else own + b"\x02")
                for flag, member, own in entries
            ]
            size = -1  # the encoder counts it
        return entries, suffix, size, wait
