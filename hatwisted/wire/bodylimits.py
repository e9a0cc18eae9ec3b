"""How many bytes the body of a request may have: what no broker or client sends is refused before it is parsed.

Most requests have none, and RocketMQ ignores one where none is expected; here it's refused above `MAX_BODY`.
Message bodies are limited by `maxMessageSize` and by the frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hatwisted.wire.codes import RequestCode
from hatwisted.wire.remoting import MAX_FRAME

MAX_BODY: Final = 64 << 10
"""Bytes, unless the code is one of the following: a configuration, a group's settings, a version."""

BODY_LIMITS: Final[Mapping[int, int]] = {
    RequestCode.SEND_MESSAGE: MAX_FRAME,
    RequestCode.SEND_MESSAGE_V2: MAX_FRAME,
    RequestCode.SEND_BATCH_MESSAGE: MAX_FRAME,
    RequestCode.SEND_REPLY_MESSAGE: MAX_FRAME,
    RequestCode.SEND_REPLY_MESSAGE_V2: MAX_FRAME,
    RequestCode.REGISTER_BROKER: MAX_FRAME,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: 1 << 20,  # one topic's queues in all groups
    RequestCode.HEART_BEAT: 1 << 20,  # 4,000 subscriptions
    RequestCode.CHECK_CLIENT_CONFIG: 256 << 10,  # an expression of 16 Ki characters, all of them escaped
    RequestCode.LOCK_BATCH_MQ: 4 << 20,  # 20,000 queues
    RequestCode.UNLOCK_BATCH_MQ: 4 << 20,
    RequestCode.JOIN_CONSUMER_OFFSET: 512 << 10,  # slaves send parts of half as much
}


def body_limit(code: int) -> int:
    """Bytes that the body of a request with this code may have."""
    return BODY_LIMITS.get(code, MAX_BODY)
