"""One connection to a broker or a name server: requests are pipelined, answers are waited for one by one.

Blocking, for one thread. Answers are matched to requests by number, because brokers answer pulls from a
pool of threads and so in any order; what arrives while another answer is awaited is kept. Each wait has a
deadline of its own. After any failure the connection is closed: a late answer must not be taken for
that of a later request.

Rejected: a thread for receiving. One process reads one queue, and the kernel's socket buffer already receives
while a batch is decoded.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.address import parse_address
from hatwisted.clientcore.credentials import Credentials
from hatwisted.clientcore.errors import (
    BadAnswer,
    BadSetting,
    CallFailed,
    CallTimedOut,
    ConnectFailed,
    ConnectionGone,
)
from hatwisted.clientcore.tls import tls_problem
from hatwisted.wire.remoting import (
    MAX_ANSWER_HEADER,
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    encode_command,
)

MAX_IN_FLIGHT: Final = 64
"""Requests without an answer. An answer to a pull has 256 KiB or one message, so this bounds what may have to be
kept for later as well."""
RECEIVE_BYTES: Final = 256 * 1024
"""Bytes of one read from the socket: an answer to a pull."""
LAST_LOOK: Final = 0.001
"""Seconds of a last look at the socket after a timeout: if the process was paused, the answer may be there."""
GRACE: Final = 1.0
"""Seconds for the rest, once, if that look has found something: an answer takes several reads."""

Clock = Callable[[], float]
"""Monotonic seconds."""


class Connection:
    """Opened at once. Raises CallFailed if it can't be, BadSetting if TLS refuses the peer.

    - address: "host:port" of the server
    - settings: time limits, credentials
    - tls: the context to encrypt with; None: plaintext
    - clock: seconds, monotonic
    """

    def __init__(
        self,
        address: str,
        settings: ClusterSettings,
        tls: ssl.SSLContext | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.address = address
        self._credentials: Credentials | None = settings.credentials
        self._timeout = settings.answer_timeout
        self._clock = clock
        self._numbers = itertools.count(1)
        self._receiver = RemotingReceiver(max_header=MAX_ANSWER_HEADER)
        self._waited_for: set[int] = set()
        self._early: dict[int, RemotingCommand] = {}
        self._closed = False
        self._socket = _dial(address, settings.connect_timeout, tls)

    @property
    def in_flight(self) -> int:
        """Requests whose answers nobody has taken yet."""
        return len(self._waited_for)

    def has_ended(self) -> bool:
        """Has the server closed it while no request was under way? Brokers do with one that is silent for two
        minutes, and nobody reads it meanwhile."""
        if self._closed or self.in_flight:
            return self._closed
        self._socket.settimeout(0)
        try:
            data = self._socket.recv(RECEIVE_BYTES)
            self._taken(data)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except (OSError, BadAnswer):
            return True
        return not data

    def give_up(self, number: int) -> None:
        """Discard the answer to request `number` when it comes."""
        self._waited_for.discard(number)
        self._early.pop(number, None)

    def close(self) -> None:
        """Close the socket and forget everything under way."""
        self._closed = True
        self._socket.close()

    def call(self, request: RemotingCommand) -> RemotingCommand:
        """The answer to `request`, whatever its code."""
        return self.answer(self.post(request))

    def post(self, request: RemotingCommand) -> int:
        """Send `request`; its number, to ask for the answer with. CallFailed if it can't be sent."""
        if self.in_flight >= MAX_IN_FLIGHT:
            raise AssertionError(f"{MAX_IN_FLIGHT} requests are under way; take answers first")
        self.post_oneway(request)
        self._waited_for.add(request.opaque)
        return request.opaque

    def post_oneway(self, request: RemotingCommand) -> None:
        """Send `request` without waiting for its answer."""
        self._check_open()
        request.opaque = next(self._numbers) & 0x7FFFFFFF  # servers take no more than an int32
        if self._credentials is not None:
            self._credentials.sign(request)
        self._socket.settimeout(self._timeout)
        try:
            self._socket.sendall(encode_command(request))
        except OSError as error:
            raise self._gone(ConnectionGone, _reason(error)) from error

    def answer(self, number: int, timeout: float | None = None) -> RemotingCommand:
        """The answer to the request `number`; timeout: seconds, those of the settings if None.

        CallFailed if none comes in time, BadAnswer if what comes can't be decoded.
        """
        timeout = self._timeout if timeout is None else timeout
        deadline = self._clock() + timeout
        put_off = False
        while number not in self._early:
            self._check_open()
            left = deadline - self._clock()
            if left <= 0 and put_off:
                raise self._gone(CallTimedOut, f"no answer within {timeout:g} s")
            self._receive(max(left, LAST_LOOK), timeout)
            if left <= 0:
                put_off = True
                deadline = self._clock() + GRACE
        self._waited_for.discard(number)
        return self._early.pop(number)

    def _receive(self, seconds: float, timeout: float) -> None:
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise self._gone(CallTimedOut, f"no answer within {timeout:g} s") from None
        except OSError as error:
            raise self._gone(ConnectionGone, _reason(error)) from error
        if not data:
            left = len(self._waited_for)
            raise self._gone(ConnectionGone, f"closed the connection with {left} requests unanswered")
        self._taken(data)

    def _taken(self, data: bytes) -> None:
        """Keep the answers that are waited for. BadAnswer for what isn't RocketMQ's protocol."""
        try:
            commands = self._receiver.receive(data)
        except RemotingProtocolError as error:
            self.close()
            raise BadAnswer(f"{self.address}: its answer isn't RocketMQ's: {error.reason}") from None
        for command in commands:
            # Brokers send requests, too; a reader that has joined no group has nothing to answer.
            if command.is_response and command.opaque in self._waited_for:
                self._early[command.opaque] = command

    def _check_open(self) -> None:
        # A call that fails closes the socket for the others too.
        if self._closed:
            raise ConnectionGone(self.address, "the connection is closed")

    def _gone(self, kind: type[CallFailed], reason: str) -> CallFailed:
        self.close()
        return kind(self.address, reason)


def _dial(address: str, timeout: float, tls: ssl.SSLContext | None) -> socket.socket:
    host, port = parse_address(address)
    try:
        connected = socket.create_connection((host, port), timeout)
    except TimeoutError:
        raise ConnectFailed(address, f"can't be reached within {timeout:g} s") from None
    except OSError as error:
        raise ConnectFailed(address, f"can't be reached: {_reason(error)}") from error
    except UnicodeError as error:  # what the IDNA codec raises for an empty or overlong label
        raise ConnectFailed(address, f"can't be reached: {host!r} is not a host name") from error
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected if tls is None else _encrypted(connected, host, address, tls)


def _encrypted(connected: socket.socket, host: str, address: str, tls: ssl.SSLContext) -> socket.socket:
    try:
        return tls.wrap_socket(connected, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        connected.close()
        raise BadSetting(f"{address}: {tls_problem(error)}") from None
    except OSError as error:
        connected.close()
        raise ConnectFailed(address, f"no TLS there: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
