"""What a broker puts by itself where it is for, after it has told the producer that it is safe: delayed messages,
once they are due, and those of transactions, once they are committed.

No I/O and no clock, as `promises`. Who has promised to have such a message has promised to deliver it, at least
once: what it knows of its own progress must not outlive what it has delivered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hatwisted.sim.history import Seen, Sent, StoreView, Violation

MILLISECOND = 0.001
"""Times of records are whole ones."""


def undelivered(messages: Iterable[Sent], store: StoreView) -> Iterable[Violation]:
    """Messages that this store promises to have, that were to come later, and that aren't where they are for. All
    of them are due by now."""
    promised = [sent for sent in messages if _is_to_come(sent) and store.name in sent.on]
    delivered = _delivered(promised, store)
    for sent in promised:
        if not delivered[sent.topic, sent.queue_id].get(sent.body):
            where = f"{sent.topic}/{sent.queue_id} of {store.name}"
            yield Violation("delivered", f"message {sent.number}, safe since its answer, isn't in {where}")


def _is_to_come(sent: Sent) -> bool:
    return bool(sent.delay or sent.commits)


def rolled_back(messages: Iterable[Sent], store: StoreView) -> Iterable[Violation]:
    """Messages of transactions that were rolled back, and that consumers can read all the same."""
    withdrawn = [sent for sent in messages if sent.commits is False]
    delivered = _delivered(withdrawn, store)
    for sent in withdrawn:
        if delivered[sent.topic, sent.queue_id].get(sent.body):
            where = f"{sent.topic}/{sent.queue_id} of {store.name}"
            yield Violation("withdrawn", f"message {sent.number} was rolled back, and stands in {where}")


def early(messages: Iterable[Sent], store: StoreView) -> Iterable[Violation]:
    """Delayed messages that were delivered before their time. Only where clocks agree."""
    delayed = [sent for sent in messages if sent.delay and sent.place is not None and store.name in sent.on]
    delivered = _delivered(delayed, store)
    for sent in delayed:
        assert sent.place is not None
        waiting = store.record_at(sent.place.log_offset)
        for seen in delivered[sent.topic, sent.queue_id].get(sent.body, ()):
            if waiting is None or seen.stored_at >= waiting.stored_at + sent.delay / MILLISECOND:
                continue
            told = (
                f"message {sent.number} came {(seen.stored_at - waiting.stored_at) * MILLISECOND:g} s after"
            )
            yield Violation("early", f"{told} it was stored, and was to wait {sent.delay:g} s")


def _delivered(
    messages: Iterable[Sent], store: StoreView
) -> defaultdict[tuple[str, int], dict[bytes, list[Seen]]]:
    """Of each queue that these are for, its messages by body."""
    found: defaultdict[tuple[str, int], dict[bytes, list[Seen]]] = defaultdict(dict)
    for topic, queue_id in sorted({(sent.topic, sent.queue_id) for sent in messages}):
        for seen in store.queue(topic, queue_id)[1]:
            if seen is not None:
                found[topic, queue_id].setdefault(seen.body, []).append(seen)
    return found
