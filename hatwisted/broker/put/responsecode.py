"""How a put's status is answered to its sender: RocketMQ's codes for sends, of all that clients have put."""

from __future__ import annotations

from hatwisted.store.log.put import PutStatus
from hatwisted.wire.codes import ResponseCode

_CODES = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
}


def response_code(status: PutStatus) -> int:
    """The code that answers a put with this status."""
    return int(_CODES.get(status, ResponseCode.SYSTEM_ERROR))
