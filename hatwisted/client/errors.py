"""What goes wrong for a client, told with the address, the code and the remark of who said so."""

from __future__ import annotations

from hatwisted.wire.remoting import RemotingCommand


class ClientError(Exception):
    """Anything the cluster, the network or the caller did that a request couldn't survive."""


class BadMessage(ClientError, ValueError):
    """The caller's mistake: this message can't be sent as it is."""


class NoNameServer(ClientError):
    """None of the name servers answered; the message says what each of them did."""


class NoRoute(ClientError):
    """No broker takes or gives messages of this topic. `topic`: which."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic}: {reason}")
        self.topic = topic


class Refused(ClientError):
    """A server answered with an error. `address`: "host:port"; `code`, `remark`: its own words."""

    def __init__(self, address: str, code: int, remark: str) -> None:
        super().__init__(f"{address} answered with code {code}: {remark or 'no remark'}")
        self.address = address
        self.code = code
        self.remark = remark

    @classmethod
    def of(cls, address: str, response: RemotingCommand) -> Refused:
        """The error that `response` is."""
        return cls(address, response.code, response.remark or "")


class SendFailed(ClientError):
    """All tries failed. `attempts`: what happened at each, in order; the last one is the cause."""

    def __init__(self, topic: str, attempts: list[Exception]) -> None:
        told = "; ".join(str(each) for each in attempts)
        super().__init__(f"topic {topic}: not sent after {len(attempts)} tries: {told}")
        self.topic = topic
        self.attempts = attempts


class ProducerFull(ClientError):
    """More bytes are waiting than the producer holds; wait for `Producer.ready()` between sends."""


class Closed(ClientError):
    """The producer, consumer or cluster was stopped."""
