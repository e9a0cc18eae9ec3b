"""A few messages put into one broker: what makes two logs part, in tests of logs that have."""

from __future__ import annotations

from hatwisted.wire.codes import ResponseCode
from testbed.remotingclient import RemotingClient


def put(port: int, body: bytes, count: int) -> list[int]:
    """Log offsets of that many puts.

    - port: the broker's
    - body: of each message
    - count: how many
    """
    with RemotingClient("127.0.0.1", port) as client:
        results = [client.send("Parted", body, 0) for _ in range(count)]
    assert {result.code for result in results} == {ResponseCode.SUCCESS}
    return [result.physical for result in results]
