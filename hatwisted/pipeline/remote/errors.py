"""What goes wrong between a reader and a cluster, told with the address or the queue and what to do next.

`BrokerGone` (nobody answers) is the pipeline's own; a broker that answers with an error, offsets that don't
exist and a cluster that doesn't know a topic are different things to whoever has to repair them.
"""

from __future__ import annotations

from typing import Final

from hatwisted.pipeline.errors import BrokerGone, PipelineError
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand

__all__ = ["BadAnswer", "BadSetting", "BrokerGone", "NoRoute", "OffsetsGone", "OffsetsNotThere", "Refused"]

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


class BadSetting(PipelineError):
    """The caller's mistake: an address, a pattern, a certificate or an offset that can't be meant."""


class NoRoute(PipelineError):
    """The name servers know no such topic, or no queue of it that may be read."""


class Refused(PipelineError):
    """A server answered with an error; the message has its address, code and remark."""

    code: int = -1
    """The answer's."""
    lasting: bool = False
    """Will the same request be refused again, whenever it comes?"""

    @classmethod
    def of(cls, address: str, answer: RemotingCommand, what: str) -> Refused:
        """The error that `answer` is; what: the request, in words."""
        said = " ".join((answer.remark or "no remark").split())[:300]
        error = cls(f"{address} refuses {what}: code {answer.code} {_name(answer.code)}: {said}")
        error.code = answer.code
        error.lasting = answer.code in _LASTING or _ACL in said
        return error


class BadAnswer(PipelineError):
    """A server's answer can't be what its code promises: a foreign program, or damage on the way."""


class OffsetsGone(PipelineError):
    """Messages that were to be read have been deleted: by retention, or with their topic."""


class OffsetsNotThere(PipelineError):
    """Offsets that were to be read lie beyond what any broker of the group has."""


def _name(code: int) -> str:
    try:
        return ResponseCode(code).name
    except ValueError:
        return "(unknown)"
