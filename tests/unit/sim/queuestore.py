"""A store of queues only, for what is judged by them."""

from __future__ import annotations

from hatwisted.sim.history import Place, Seen


class QueueStore:
    """Its messages have numbers for bodies, and stand in the log in the order in which they were put."""

    name = "a"

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], list[Seen | None]] = {}

    def put(self, topic: str, *numbers: int, stored_at: int = 0) -> None:
        """Messages of these numbers, at the end of queue 0."""
        messages = self.queues.setdefault((topic, 0), [])
        for number in numbers:
            messages.append(seen(topic, len(messages), number)._replace(stored_at=stored_at))

    def queue(self, topic: str, queue_id: int) -> tuple[int, list[Seen | None]]:
        return 0, self.queues.get((topic, queue_id), [])

    def record_at(self, log_offset: int) -> Seen | None:
        held = (message for messages in self.queues.values() for message in messages)
        return next((each for each in held if each is not None and each.place.log_offset == log_offset), None)

    def log_range(self) -> tuple[int, int]:
        raise NotImplementedError

    def log_bytes(self, start: int, end: int) -> bytes:
        raise NotImplementedError


def seen(topic: str, offset: int, number: int) -> Seen:
    return Seen(Place(topic, 0, offset, offset * 100), b"%08d" % number)
