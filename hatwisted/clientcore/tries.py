"""The tries of one send: how many, how long, on which errors another one, and what comes of it all.

As RocketMQ's sendDefaultImpl: up to `retries` further tries on other brokers inside one limit of time (B116). An
answer that says *stored* ends it, whichever copy is missing, unless the producer is set to go on.
"""

from __future__ import annotations

from hatwisted.clientcore.errors import ClientError, Refused, SendFailed
from hatwisted.clientcore.options import ProducerOptions
from hatwisted.clientcore.sending import RETRY_CODES, Outgoing, SendResult, SendStatus


class Tries:
    """The tries of one request. Times in seconds of one clock.

    - out: the request
    - options: how many, how long
    - now: when it begins
    """

    def __init__(self, out: Outgoing, options: ProducerOptions, now: float) -> None:
        self.failures: list[Exception] = []
        self.tried: set[str] = set()
        self._topic = out.topic
        self._most = 1 if out.pinned else 1 + options.retries
        self._made = 0
        self._timeout = options.timeout
        self._until = now + options.whole_limit
        self._wants_ok = options.retry_not_stored_ok
        self._stored: list[SendResult] | None = None

    def next_at(self, now: float) -> bool:
        """Is there another try? It's counted."""
        if self._made >= self._most or (self._made and now >= self._until):
            return False
        self._made += 1
        return True

    def left(self, now: float) -> float:
        """Seconds for the try under way: no more than is left of the limit."""
        return max(min(self._timeout, self._until - now), 0.001)

    def failed(self, broker: str, error: ClientError) -> None:
        """The try at `broker` came to nothing. Raises the error if no other broker would say anything else."""
        if isinstance(error, Refused) and error.code not in RETRY_CODES:
            raise error
        self.tried.add(broker)
        self.failures.append(error)

    def stored(self, broker: str, found: list[SendResult]) -> bool:
        """The broker has it. Is that the end?"""
        if not self._wants_ok or found[0].status is SendStatus.OK:
            return True
        self.tried.add(broker)
        self._stored = found
        return False

    def outcome(self) -> list[SendResult]:
        """When there's no further try: what was stored with less than OK, or SendFailed."""
        if self._stored is not None:
            return self._stored
        raise SendFailed(self._topic, self.failures) from self.failures[-1]
