"""The remoting server: frames of one read become requests, a table says who answers them (`processortable`).

Everything that one `dataReceived` brings is handled in one go: all complete frames are parsed, consecutive
requests of a hot code go to their processor as one list (so that sends are appended, replicated and answered
as a batch), and all answers produced meanwhile leave in one write, but for large bodies. Ordinary processors see
one request at a time and return an answer or a Deferred of one.

Flow control: a client that doesn't read its answers isn't read from either (the transport pauses us as its
producer), and what one read has brought isn't worked on any further once ANSWER_WINDOW bytes of answers wait:
small requests can ask for big answers. Dear requests wait for each other's turns (`requestturns`), messages for
earlier ones of their address (`sendwindows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from twisted.internet.interfaces import IConsumer, IPushProducer, ITCPTransport, ITransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hatwisted.kernel import take_sends, take_signed_sends
from hatwisted.remoting.connectionsofport import ConnectionsOfPort
from hatwisted.remoting.eagerwrite import carrier, write_now
from hatwisted.remoting.framesizes import FrameSizes
from hatwisted.remoting.processortable import BatchHandler, ProcessorTable, response
from hatwisted.remoting.requestturns import RequestTurns
from hatwisted.remoting.sendwindows import SendWindow
from hatwisted.wire.bodylimits import MAX_BODY, body_limit
from hatwisted.wire.codes import FLAG_ONEWAY, FLAG_RESPONSE, ResponseCode
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.networks import plain_address
from hatwisted.wire.remoting import (
    RemotingCommand,
    RemotingProtocolError,
    RemotingReceiver,
    encode_command,
    encode_command_parts,
)

READ_SIZE = 256 * 1024
"""Bytes asked of a socket per read: what one batch can hold of a pipelining producer."""

WRITE_SIZE = 64 << 10
"""Bytes of what waits that a client's socket is given in a round of the loop: hundreds may take some at once."""

ANSWER_WINDOW = 4 << 20
"""Bytes of answers of one read after which a client has to take some before its next request is looked at."""

LARGE_BODY = 128 << 10
"""Bytes from which on an answer's body leaves as it is, in a write of its own: to join it costs two copies."""

WAITING_SIZE = 256
"""Bytes that a request takes while it waits for its turn, besides those that came."""


@implementer(IPushProducer)
class RemotingConnection(Protocol):
    """One client. `peer` is "host:port", `address` the host alone, `host` its packed address for records.

    - typed_sends, signed_sends: as RemotingReceiver
    - sizes: can a request's be told?
    """

    _log = Logger()
    factory: ConnectionsOfPort

    def __init__(self, typed_sends: bool = True, signed_sends: bool = False, sizes: bool = False) -> None:
        take = take_signed_sends if signed_sends else take_sends
        self._receiver = RemotingReceiver(typed_sends=typed_sends, signed_sends=signed_sends, take_sends=take)
        self._sizes = FrameSizes() if sizes else None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._corked = False
        self.paused = False
        """Does the client leave unread what it has been sent? Nothing big should follow then."""
        self._backlog: list[RemotingCommand] = []
        self._backlog_size = 0
        self._waiting = False
        self._closing = False
        self._closers: dict[Callable[[RemotingConnection], object], None] = {}
        self._readers: list[Callable[[], None]] = []
        self._answer_taker: Callable[[RemotingCommand], None] | None = None
        self.active = True
        self.stalled = False
        """Has the frame that it has begun been there at the last look, too?"""
        self.open = False
        self.address = "?"
        self.peer = "?"
        self.local = False
        """Does it come from this host?"""
        self.host = HostPort(b"\0\0\0\0", 0)
        self.host_bytes = self.host.pack()

    def connectionMade(self) -> None:
        transport = cast(ITCPTransport, self.transport)
        address = transport.getPeer()
        client = plain_address(address.host)
        self.host = HostPort(client.packed, address.port)
        self.host_bytes = self.host.pack()
        self.address = str(client)
        self.peer = f"{client}:{address.port}"
        at_proxy = getattr(transport, "behind_proxy", False)
        self.local = not at_proxy and (client.is_loopback or address.host == transport.getHost().host)
        self.window = self.factory.windows.of(self.address)
        self.open = self.factory.admit(self)
        if not self.open:
            transport.abortConnection()
            return
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(True)
        plain = carrier(transport)
        if hasattr(plain, "bufferSize"):
            plain.bufferSize = READ_SIZE
        if hasattr(plain, "SEND_LIMIT"):
            plain.SEND_LIMIT = WRITE_SIZE
        cast(IConsumer, transport).registerProducer(self, True)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.open = False
        self.factory.forget(self)
        self._drop_unread()
        closers, self._closers = self._closers, {}
        for closer in closers:
            closer(self)

    def on_close(self, closer: Callable[[RemotingConnection], object]) -> None:
        """Call `closer` with this connection when it's gone; once, however often it's given."""
        self._closers[closer] = None

    def on_answer(self, taker: Callable[[RemotingCommand], None]) -> None:
        """Have the client's answers go to `taker`: the one who asks it something."""
        self._answer_taker = taker

    def close(self) -> None:
        """Close after what is queued has been written. No request is worked on any more, not even one that
        has been read: what would answer it is being closed, too."""
        self._closing = True
        self._backlog = []
        # A transport waits with its close as long as a paused producer has to be resumed.
        cast(IConsumer, self.transport).unregisterProducer()
        cast(ITCPTransport, self.transport).loseConnection()

    def abort(self) -> None:
        """Close at once: whoever doesn't read would hold a polite close up for ever."""
        cast(ITCPTransport, self.transport).abortConnection()

    # -- reading ---------------------------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        if not self.open or self._closing:
            return  # not admitted, and its proxy sent this along with its header; or TLS had this read already
        self.active = True
        arrived = self._receiver.buffered + len(data)
        try:
            commands = self._receiver.receive(data)
        except RemotingProtocolError as error:
            self.reject(f"{error}")
            return
        if self._sizes is not None:
            self._sizes.note(data, commands)
        if commands:
            self.stalled = False
        arrived += WAITING_SIZE * len(commands) - self._receiver.buffered
        self._tell_held()
        if self._backlog:
            # Bytes that the transport had read already when it was paused.
            self._backlog += commands
        else:
            self._work(commands)
        if self._backlog:
            self._backlog_size += arrived
            self._tell_held()

    def size_of(self, request: RemotingCommand) -> int:
        """Bytes that `request` came in, until it has been worked on; 0 if nobody wants to know it here."""
        return self._sizes.size(request) if self._sizes is not None else 0

    def _drop_unread(self) -> None:
        """Nothing more of what has come is worked on. The receiver goes with it: it holds what had begun, and
        Python may find only much later that the connection is garbage."""
        self._backlog = []
        self._receiver = RemotingReceiver()

    def _tell_held(self) -> None:
        self.factory.partial.hold(self, self._receiver.buffered + self._backlog_size)

    def _work(self, commands: list[RemotingCommand]) -> None:
        if not self.open:
            return  # it held most of the incomplete frames, or is gone
        self._corked = True
        try:
            self._dispatch(commands)
        finally:
            self._corked = False
            self._flush()
            if self._sizes is not None and not self._backlog:
                self._sizes.forget()

    def _flush(self) -> None:
        if self._out:
            out, self._out, self._out_bytes = self._out, [], 0
            self._write(b"".join(out))

    def reject(self, reason: str) -> None:
        """Close at once, and tell the log why."""
        self.open = False
        self._drop_unread()
        self.factory.rejected_total += 1
        self._log.warn("closing {peer}: {reason}", event="connection.closed", peer=self.peer, reason=reason)
        cast(ITCPTransport, self.transport).abortConnection()

    def _dispatch(self, commands: list[RemotingCommand]) -> None:
        table, turns = self.factory.table, self.factory.turns
        batch_handlers = table.batch_handlers
        batch: list[RemotingCommand] = []
        current: BatchHandler | None = None
        began = worked = 0.0
        allowance = turns.allowance
        for index, command in enumerate(commands):
            handler = batch_handlers.get(command.code) if not command.flag & FLAG_RESPONSE else None
            if handler is not current and batch:
                self._run_batch(cast(BatchHandler, current), batch)
                batch = []
                began = 0.0
            current = handler
            if handler is not None and (batch or not (self.window.full or turns.sends_full)):
                batch.append(command)
                continue
            if handler is not None or worked >= allowance:
                self._put_off(commands[index:], self.window if handler and self.window.full else turns)
                break
            began = began or turns.seconds()
            self._run_one(table, command)
            now = turns.seconds()
            worked, began = worked + now - began, now
            if self._out_bytes > ANSWER_WINDOW:
                self._flush()
            if self.paused:
                self._backlog = commands[index + 1 :]
                break
        if batch:
            self._run_batch(cast(BatchHandler, current), batch)
        turns.count(worked)

    def _put_off(self, rest: list[RemotingCommand], line: RequestTurns | SendWindow) -> None:
        """These have to wait for the next turn, or for room; meanwhile no more are read."""
        self._backlog = rest
        self._waiting = True
        cast(IPushProducer, self.transport).pauseProducing()
        line.wait(self)

    def go_on(self) -> None:
        """It's this connection's turn: work on what was put off, then read again."""
        self._waiting = False
        if not self.open or self._closing or self.paused:
            return  # gone, or going, or its reading its answers comes first
        backlog, self._backlog = self._backlog, []
        self._work(backlog)
        if self.open and not self._backlog:
            self._backlog_size = 0
            self._tell_held()
            if not self.paused:
                cast(IPushProducer, self.transport).resumeProducing()

    def _run_batch(self, handler: BatchHandler, batch: list[RemotingCommand]) -> None:
        turns = self.factory.turns
        began = turns.seconds()
        try:
            handler(self, batch)
        except Exception:
            failure = Failure()
            for command in batch:
                self._failed(failure, command)
        turns.count_sends(turns.seconds() - began)

    def _run_one(self, table: ProcessorTable, command: RemotingCommand) -> None:
        if command.flag & FLAG_RESPONSE:
            # An answer to a request of ours. Both sides number their requests by themselves, so it never meets
            # the table.
            if self._answer_taker is not None:
                self._answer_taker(command)
            else:
                self._log.debug("{peer}: unexpected answer {opaque}", peer=self.peer, opaque=command.opaque)
            return
        handler = table.handlers.get(command.code)
        if handler is None or (len(command.body) > MAX_BODY and len(command.body) > body_limit(command.code)):
            handler = table.unserved
        try:
            answer = handler(self, command)
        except Exception:
            self._failed(Failure(), command)
            return
        if isinstance(answer, RemotingCommand):
            self.reply(command, answer)
        elif answer is not None:
            answer.addCallback(lambda late: self.reply(command, late)).addErrback(self._failed, command)

    def _failed(self, failure: Failure, command: RemotingCommand) -> None:
        self._log.failure(
            "request {code} of {peer} failed", failure=failure, code=command.code, peer=self.peer
        )
        remark = f"{type(failure.value).__name__}: {failure.getErrorMessage()}"
        self.reply(command, response(command, ResponseCode.SYSTEM_ERROR, remark))

    # -- writing ---------------------------------------------------------------------------------------------

    def reply(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        """Send `answer`, unless the request was oneway."""
        if answer.code == ResponseCode.SYSTEM_BUSY:
            self.factory.busy_total += 1
        if request.flag & FLAG_ONEWAY:
            return
        if len(answer.body) < LARGE_BODY:
            self.send(encode_command(answer))
            return
        self._flush()
        for part in encode_command_parts(answer):
            self._write(part)

    def send(self, data: bytes) -> None:
        """Send whole encoded frames; those of one read leave together."""
        if self._corked:
            self._out.append(data)
            self._out_bytes += len(data)
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self.open and (unread := write_now(cast(ITransport, self.transport), data)):
            self.factory.unread.hold(self, unread)

    @property
    def holds_partial_frame(self) -> bool:
        """Has the client begun a frame and not ended it?"""
        return self._receiver.buffered > 0

    def on_resume(self, reader: Callable[[], None]) -> None:
        """Call `reader` once the client reads again. Only while `paused`."""
        self._readers.append(reader)

    def pauseProducing(self) -> None:
        """The client doesn't read its answers: don't read its requests."""
        self.paused = True
        cast(IPushProducer, self.transport).pauseProducing()

    def resumeProducing(self) -> None:
        """It does again: first what had been read before."""
        self.paused = False
        readers, self._readers = self._readers, []
        for reader in readers:
            reader()
        if not self._waiting:
            self.go_on()

    def stopProducing(self) -> None:
        """The connection is going away; connectionLost follows."""
