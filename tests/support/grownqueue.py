"""What listeners to arrivals are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def grown(topic: str, queue_id: int, max_offset: int) -> list[Any]:
    """One queue, as if it had just grown.

    - topic, queue_id: of the queue
    - max_offset: its end now
    """
    return [SimpleNamespace(topic=topic, queue_id=queue_id, max_offset=max_offset)]
