"""What goes wrong for a client, with the address, the code and the remark of the server.

Everything that a client raises is a ClientError, whichever driver it runs on. Those of single calls
(CallFailed) are what drivers translate their transport's own errors into.
"""

from __future__ import annotations

from typing import Final

from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand

_LASTING: Final = frozenset(
    (
        ResponseCode.NO_PERMISSION,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    )
)
_ACL: Final = "AclException"
"""In the remark of a 4.x broker that doesn't accept an account; the code is that of any error."""
_NO_FILTER: Final = "does not support consumer to filter"
"""In the remark of a broker with enablePropertyFilter=false to a pull with an expression; likewise."""
MAX_REMARK: Final = 300
"""Characters of a server's words that an error repeats."""


class ClientError(Exception):
    """Anything the cluster, the network or the caller did that a request couldn't survive."""


class BadMessage(ClientError, ValueError):
    """The caller's mistake: this message can't be sent as it is."""


class BadSetting(ClientError, ValueError):
    """The caller's mistake: an address, a group or an option that makes no sense."""


class BadTransactionState(ClientError, TypeError):
    """The caller's mistake: the work or check of a transaction gave something other than a TransactionState."""


class BrokerGone(ClientError):
    """A broker or name server went away, or can't be reached, and no retry helped."""


class CallFailed(BrokerGone):
    """No answer came. `address`: who was asked ("host:port"); the message says what happened."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason

    def __reduce__(self) -> tuple[type[CallFailed], tuple[str, str]]:
        return type(self), (self.address, self.reason)


class ConnectFailed(CallFailed):
    """The server could not be reached; the request was not sent."""


class ConnectionGone(CallFailed):
    """The connection closed before the answer came; whether the server acted on the request is unknown."""


class CallTimedOut(CallFailed):
    """No answer in time; whether the server acted on the request is unknown."""


class TooManyCalls(CallFailed):
    """The program's own mistake: too many calls to this server are under way; the request was not sent."""


class BadAnswer(ClientError, ValueError):
    """A server's answer isn't what its code promises: a foreign program, or damage on the way."""


class NoNameServer(BrokerGone):
    """None of the name servers answered; the message says what each of them did."""


class NoRoute(ClientError):
    """No broker takes or gives messages of this topic. `topic`: which."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic}: {reason}")
        self.topic = topic
        self._reason = reason

    def __reduce__(self) -> tuple[type[NoRoute], tuple[str, str]]:
        return type(self), (self.topic, self._reason)


class Refused(ClientError):
    """A server answered with an error.

    - address: "host:port"
    - code, remark: its own words
    - what: the request, in words
    """

    def __init__(self, address: str, code: int, remark: str, what: str = "") -> None:
        said = " ".join((remark or "no remark").split())[:MAX_REMARK]
        refusal = f"refuses {what}:" if what else "answered with"
        super().__init__(f"{address} {refusal} code {code}{_name(code)}: {said}")
        self.address = address
        self.code = code
        self.remark = remark
        self._what = what

    def __reduce__(self) -> tuple[type[Refused], tuple[str, int, str, str]]:
        return type(self), (self.address, self.code, self.remark, self._what)

    @classmethod
    def of(cls, address: str, response: RemotingCommand, what: str = "") -> Refused:
        """The error that an answer is.

        - address: "host:port" of who gave it
        - response: the answer
        - what: the request, in words
        """
        return cls(address, response.code, response.remark or "", what)

    @property
    def lasting(self) -> bool:
        """Will the same request be refused again, whenever it comes?"""
        return self.code in _LASTING or _ACL in self.remark or _NO_FILTER in self.remark


def _name(code: int) -> str:
    try:
        return f" {ResponseCode(code).name}"
    except ValueError:
        return " (unknown)"


class RefusedByAll(Refused):
    """Every server that could be asked answered with an error; the message has all of them, the rest is the last
    one's."""

    def __init__(self, details: str, last: Refused) -> None:
        super().__init__(last.address, last.code, last.remark)
        self.args = (details,)
        self._last = last

    def __reduce__(self) -> tuple[type[RefusedByAll], tuple[str, Refused]]:  # type: ignore[override]
        return type(self), (str(self), self._last)


class OffsetsGone(ClientError):
    """Messages that were to be read have been deleted: by retention, or with their topic."""


class OffsetsNotFound(ClientError):
    """Offsets that were to be read lie beyond what any broker of the group has."""


class SendFailed(ClientError):
    """All tries failed. `attempts`: what happened at each, in order; the last one is the cause."""

    def __init__(self, topic: str, attempts: list[Exception]) -> None:
        reasons = "; ".join(str(each) for each in attempts)
        tries = f" after {len(attempts)} tries" if len(attempts) > 1 else ""
        super().__init__(f"topic {topic}: not sent{tries}: {reasons}")
        self.topic = topic
        self.attempts = attempts


class ProducerFull(ClientError):
    """As many bytes are waiting as the producer may hold; wait for `Producer.ready()` between sends."""


class Closed(ClientError):
    """The producer, consumer or cluster was stopped."""


class Rejected(ClientError):
    """The program doesn't want this message now."""


class Unsettled(ClientError):
    """The program had the message when its queue was reassigned, or the consumer stopped: outcome unknown."""


class UnreadableBody(ClientError):
    """A body can't be decompressed; the message says why."""
