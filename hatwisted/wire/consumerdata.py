"""What a heartbeat says about a consumer group: RocketMQ's ConsumerData, its constants by name and by number."""

from __future__ import annotations

from typing import Final

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
"""It pulls when its program asks it to."""
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"
"""Messages are pushed to it."""
CONSUME_TYPES: Final = {0: CONSUME_ACTIVELY, 1: CONSUME_PASSIVELY}

BROADCASTING: Final = "BROADCASTING"
CLUSTERING: Final = "CLUSTERING"
MESSAGE_MODELS: Final = {0: BROADCASTING, 1: CLUSTERING}

CONSUME_FROM_LAST: Final = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST: Final = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP: Final = "CONSUME_FROM_TIMESTAMP"
CONSUME_FROM: Final = {0: CONSUME_FROM_LAST, 4: CONSUME_FROM_FIRST, 5: CONSUME_FROM_TIMESTAMP}

ALL_TAGS: Final = "*"
TAG: Final = "TAG"
"""The expression type that needs no evaluation of properties; None and "" mean it too."""
SQL92: Final = "SQL92"
"""The expression type of conditions on properties; RocketMQ has no other."""

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""A group that every broker has from its first start, even where groups aren't created on demand."""
