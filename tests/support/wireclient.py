"""A client that speaks RocketMQ's commands and nothing else: what the servers answer it, and what they ask it."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command


class WireClient(Protocol):
    """Answers stay in `commands`, in the order they came, until `answer_to` takes one; what it is asked stays in
    `requests`. `gone` fires when the connection has ended."""

    def __init__(self) -> None:
        self.commands: list[RemotingCommand] = []
        self.requests: list[RemotingCommand] = []
        self.gone: Deferred[None] = Deferred()
        self._receiver = RemotingReceiver()
        self._waiting: list[tuple[Callable[[], object], Deferred[None]]] = []
        self._opaque = 0

    def dataReceived(self, data: bytes) -> None:
        """See Protocol."""
        for command in self._receiver.receive(data):
            (self.commands if command.is_response else self.requests).append(command)
        ready = [each for each in self._waiting if each[0]()]
        self._waiting = [each for each in self._waiting if each not in ready]
        for _, came in ready:
            came.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See Protocol."""
        self.gone.callback(None)

    async def _until(self, condition: Callable[[], object]) -> None:
        if not condition():
            came: Deferred[None] = Deferred()
            self._waiting.append((condition, came))
            await came

    def send(self, command: RemotingCommand) -> None:
        """Whatever it is."""
        assert self.transport is not None
        self.transport.write(encode_command(command))

    def ask(
        self, code: int, body: bytes = b"", language: str = "JAVA", version: int = 407, **ext: object
    ) -> Deferred[RemotingCommand]:
        """A request; its answer.

        - code, body, language, version: the request's
        - ext: its fields, as text
        """
        self._opaque += 1
        texts = {name: str(value) for name, value in ext.items()}
        self.send(RemotingCommand(code, self._opaque, 0, language, version, ext=texts, body=body))
        return self.answer_to(self._opaque)

    def answer_to(self, opaque: int) -> Deferred[RemotingCommand]:
        """The answer to that request, once it's there; it's taken out of `commands`."""

        def found() -> list[RemotingCommand]:
            return [command for command in self.commands if command.opaque == opaque]

        async def take() -> RemotingCommand:
            await self._until(found)
            (answer,) = found()
            self.commands.remove(answer)
            return answer

        return Deferred.fromCoroutine(take())

    def answers(self, count: int) -> Deferred[list[RemotingCommand]]:
        """All of `commands`, once there are so many."""
        return self._all(self.commands, count)

    def asked(self, count: int = 1) -> Deferred[list[RemotingCommand]]:
        """All of `requests`, once there are so many."""
        return self._all(self.requests, count)

    def _all(self, kept: list[RemotingCommand], count: int) -> Deferred[list[RemotingCommand]]:
        async def wait() -> list[RemotingCommand]:
            await self._until(lambda: len(kept) >= count)
            return kept

        return Deferred.fromCoroutine(wait())

    def answer(
        self, request: RemotingCommand, code: int = 0, remark: str | None = None, body: bytes = b""
    ) -> None:
        """Answer what the server asked.

        - request: what it asked
        - code, remark, body: the answer's
        """
        self.send(RemotingCommand(code, request.opaque, 1, remark=remark, body=body))
