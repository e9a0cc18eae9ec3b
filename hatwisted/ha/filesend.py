"""Frames whose bodies go from the log's file to the socket without passing through this process.

A lagging slave is sent gigabytes that are in the page cache. Read and sent, each byte is copied twice; `sendfile`
hands the pages themselves to the socket. Heads go before the bodies with MSG_MORE, so that they leave in the
body's packet. The pages may wait in the socket for long, so this needs a log whose bytes below its end stay as
they are, and whose files are removed, never used again for other bytes.

Only whole frames are remembered as sent: where the socket takes no more within one, the rest is read and given
back, to be written as any other bytes, and what else is written on the link comes between two frames. Where the
file can't be sent from (an error of its disk, a file system that can't do it), nothing is made of that: the rest
is read, and reading says what's wrong, as on links where bytes have to be copied. If that fails, half a frame has
left, and only the end of the link is a cure.

Rejected: holding packets back (TCP_CORK) until a chunk is complete, which took half as much processor time again;
gathering heads and bodies that were read (`sendmsg`), which costs what reading does; splicing through a pipe,
which needs two calls for one.
"""

from __future__ import annotations

import socket as sockets
from collections.abc import Sequence
from typing import Final, NamedTuple

from hatwisted.store.errors import StoreError
from hatwisted.store.interfaces import FileBytes, IReplicatedLog, Outlet

MORE: Final = getattr(sockets, "MSG_MORE", 0)
"""The body follows; an option of Linux that saves packets."""


class Sent(NamedTuple):
    """What has become of some frames."""

    size: int
    """Log bytes of those that were begun: to be taken as sent."""
    framed: int
    """The same, with heads."""
    rest: bytes
    """What the socket hasn't taken of the last one."""
    failed: bool
    """Was something else in the way than a full socket?"""


def send_frames(socket: Outlet, log: IReplicatedLog, start: int, heads: Sequence[tuple[bytes, int]]) -> Sent:
    """As many frames as the socket takes. Raises LookupError, before anything is sent, if the log doesn't hold
    `start`; OSError or StoreError if it can't be read: half a frame may have been sent by then.

    - socket: where to
    - log: where from
    - start: the first body's offset
    - heads: what comes before each body, and its size; all of one file
    """
    file, position = log.open_file(start)
    size = framed = 0
    for head, body in heads:
        taken, failed = _send(socket, file, head, position + size, body)
        if not taken:
            return Sent(size, framed, b"", failed)
        whole = len(head) + body
        size += body
        framed += whole
        if taken < whole:
            return Sent(size, framed, _rest(log, start + size, head, body, taken), failed)
    return Sent(size, framed, b"", False)


def _send(socket: Outlet, file: FileBytes, head: bytes, at: int, body: int) -> tuple[int, bool]:
    """How many bytes of a frame were taken, and whether a failure ended that.

    - socket: where to
    - file: where the body is
    - head: what comes before it
    - at: its place in the file
    - body: its size
    """
    taken = 0
    try:
        taken = socket.send(head, MORE)
        if taken == len(head):
            taken += file.send(socket, at, body)
    except BlockingIOError:
        pass
    except OSError:
        return taken, True
    return taken, False


def _rest(log: IReplicatedLog, end: int, head: bytes, body: int, taken: int) -> bytes:
    """What is missing of a frame.

    - log: where its body is
    - end: the body's, in the log
    - head: what comes before it
    - body: its size
    - taken: how many bytes of both have left
    """
    missing = min(body, len(head) + body - taken)
    rest = log.read(end - missing, missing)
    if len(rest) != missing:
        raise StoreError(f"the file has {missing - len(rest)} bytes less than the log")
    return head[taken:] + rest
