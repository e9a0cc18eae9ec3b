"""Pre-encoded send requests in a ring, renumbered in place: what makes the load generator light.

All frames of a ring have one length, so a run of requests is one slice of one buffer. Only decimal digits
change between uses (the opaque and the last ten digits of every UNIQ_KEY), and numpy rewrites them for the
whole ring at once. With an account each frame is signed once, when the ring is made, so that signing costs the
machine nothing while brokers are measured; its message ids then come again with each round, since they are signed.
Shares no code with hatwisted's own codecs.
"""

from __future__ import annotations

import base64
import hmac
import json
import random
import re
import struct
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hatwisted.wire.topics import AUTO_CREATE_TOPIC

SEND_MESSAGE_V2, SEND_BATCH_MESSAGE = 310, 320
VERSION = 407  # V4_9_7
RING_BYTES = (
    4 << 20
)  # bytes of one connection's ring: enough to make renumbering rare, few enough for the caches
RING_FRAMES = (8, 256)  # fewest and most frames in a ring
OPAQUE_BASE, OPAQUE_SPAN = 100_000_000, 1 << 29  # always nine digits, always below 2**31
KEY_DIGITS = 10
MAX_QUEUES = 10  # one digit, so that all frames are equally long


@dataclass(frozen=True)
class Load:
    """What to send: `batch` messages of `size` bytes a request (0: single sends), to `queues` queues."""

    host: str
    port: int
    topic: str = "bench"
    connections: int = 4
    window: int = 64
    size: int = 1024
    batch: int = 0
    queues: int = 4
    topics: int = 1
    """More than one: topics are named by `topic` and four digits, and shared out among the connections."""
    tls: int = 0
    """1: over TLS."""
    account: str = ""
    """ACCESSKEY:SECRETKEY, of who signs the requests."""
    same_ids: int = 0
    """1: message ids come again as signed ones do, for comparisons with those."""

    def target(self, connection: int, slot: int) -> tuple[str, int]:
        """Topic and queue of a ring's frame."""
        if self.topics == 1:
            return self.topic, slot % self.queues
        share = self.topics // self.connections
        return topic_name(self.topic, connection * share + slot % share), slot // share % self.queues

    @property
    def round(self) -> int:
        """Frames until a connection begins again with its first topic and queue."""
        return self.queues * max(1, self.topics // self.connections)

    @property
    def messages_per_request(self) -> int:
        return max(1, self.batch)


class FrameRing:
    """Equal-length frames back to back; `number` is the sequence number of the first one."""

    def __init__(self, load: Load, connection: int) -> None:
        assert load.queues <= MAX_QUEUES
        self._each = load.messages_per_request
        self._same_ids = bool(load.account or load.same_ids)
        unique = f"{(time.time_ns() // 1000) & (1 << 64) - 1:016X}{connection:06X}"
        frame = _frame(load, unique, 0, *load.target(connection, 0))
        self.frame_size = len(frame)
        self.frames = max(RING_FRAMES[0], min(RING_FRAMES[1], RING_BYTES // len(frame)))
        self.frames = max(load.round, self.frames - self.frames % load.round)
        self.buffer = bytearray().join(
            _frame(load, unique, slot * self._each, *load.target(connection, slot))
            for slot in range(self.frames)
        )
        self.view = memoryview(self.buffer)
        self._grid = np.frombuffer(self.buffer, dtype=np.uint8).reshape(self.frames, self.frame_size)
        opaque_at = frame.index(b'"opaque":') + len(b'"opaque":')
        self._opaques = self._grid[:, opaque_at : opaque_at + 9]
        keys_at = [found.end() for found in re.finditer(unique.encode(), frame)]
        self._key_columns = np.add.outer(np.array(keys_at), np.arange(KEY_DIGITS))
        self.renumber(0)

    def renumber(self, number: int) -> None:
        """Frames get the sequence numbers number, number + 1, ...; all their message ids become new ones, unless
        they have to stay."""
        numbers = np.arange(number, number + self.frames, dtype=np.int64)
        self._opaques[:] = _digits(OPAQUE_BASE + numbers % OPAQUE_SPAN, 9)
        if self._same_ids:
            return
        keys = numbers[:, None] * self._each + np.arange(self._each)
        self._grid[:, self._key_columns] = _digits(keys, KEY_DIGITS)


def topic_name(prefix: str, number: int) -> str:
    """Topic `number` of many; all names are equally long."""
    return f"{prefix}{number:04d}"


def _frame(load: Load, unique: str, number: int, topic: str, queue_id: int) -> bytes:
    """A request whose first message is the ring's `number`th."""

    def properties(index: int) -> str:
        return f"UNIQ_KEY\x01{unique}{number + index:0{KEY_DIGITS}d}\x02WAIT\x01true\x02TAGS\x01TagA"

    payload = bytes(random.Random(load.size).choices(range(32, 127), k=load.size))
    inner = b"".join(_inner(payload, properties(index).encode()) for index in range(load.batch))
    body = inner if load.batch else payload
    outer = "WAIT\x01true" if load.batch else properties(0)
    born = int(time.time() * 1000)
    values = ["bench", topic, AUTO_CREATE_TOPIC, load.queues, queue_id, 0, born, 0, outer, 0, "false"]
    ext = {name: str(value) for name, value in zip("abcdefghijk", values, strict=True)}
    ext["m"] = "true" if load.batch else "false"
    if load.account:
        access_key, _, secret_key = load.account.partition(":")
        ext |= _proof(access_key, secret_key, ext, body)
    header = {
        "code": SEND_BATCH_MESSAGE if load.batch else SEND_MESSAGE_V2,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": OPAQUE_BASE,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def _proof(access_key: str, secret_key: str, ext: dict[str, str], body: bytes) -> dict[str, str]:
    """The fields by which ACL 1.0 knows who sends a request."""
    signed = "".join(value for _, value in sorted({**ext, "AccessKey": access_key}.items())).encode() + body
    signature = hmac.digest(secret_key.encode(), signed, "sha1")
    return {"AccessKey": access_key, "Signature": base64.b64encode(signature).decode()}


def _inner(payload: bytes, properties: bytes) -> bytes:
    total = 4 * 5 + len(payload) + 2 + len(properties)
    head = struct.pack(">iiiii", total, 0, 0, 0, len(payload))
    return head + payload + struct.pack(">h", len(properties)) + properties


def _digits(numbers: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """Decimal ASCII digits, `width` of them along a new last axis."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return (numbers[..., None] // powers % 10 + 48).astype(np.uint8)
