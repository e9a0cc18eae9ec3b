"""A driver with a clock and a cluster of its own: what the client's logic is tested on without a socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock

from hatwisted.clientcore.driver import Answer
from hatwisted.clientcore.errors import ConnectFailed
from hatwisted.clientcore.tasks import Task, Waiter
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import BrokerData, QueueData, TopicRoute, encode_body
from hatwisted.wire.remoting import RemotingCommand

NAMES = "names:9876"
"""Address of the name server."""

Outcome = RemotingCommand | Exception | None
"""Of a call: an answer, no answer, or none before its time is over."""


class Notes:
    """A log that keeps what it's told: (level, text)."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.errors: list[BaseException] = []

    def debug(self, format: str, **fields: object) -> None:
        self.lines.append(("debug", format.format(**fields)))

    def info(self, format: str, **fields: object) -> None:
        self.lines.append(("info", format.format(**fields)))

    def warn(self, format: str, **fields: object) -> None:
        self.lines.append(("warn", format.format(**fields)))

    def error(self, format: str, **fields: object) -> None:
        self.lines.append(("error", format.format(**fields)))

    def exception(self, format: str, error: BaseException, **fields: object) -> None:
        self.error(format, **fields)
        self.errors.append(error)


class ScriptedDriver:
    """Masters "a:1", "b:1" and so on, one queue each of every topic; `outcomes`: by address, of the calls to come.
    `calls` are (address, request, timeout) of all but the name server's and heartbeats."""

    def __init__(self, brokers: str = "ab", queues: int = 1) -> None:
        self.log = Notes()
        self.clock = Clock()
        self.brokers = brokers
        self.queues = queues
        self.outcomes: dict[str, list[Outcome]] = {}
        self.calls: list[tuple[str, RemotingCommand, float]] = []
        self.pending: list[Waiter[RemotingCommand]] = []
        self.oneways: list[tuple[str, RemotingCommand]] = []
        self.asked: Callable[[str, RemotingCommand], Answer] | None = None

    # ---- as Driver

    def seconds(self) -> float:
        return self.clock.seconds()

    def call_later(self, seconds: float, work: Callable[[], object]) -> Any:
        return self.clock.callLater(seconds, work)

    def random_below(self, limit: int) -> int:
        return 0

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        answer: Waiter[RemotingCommand] = Waiter()
        if address == NAMES:
            answer.fire(RemotingCommand(ResponseCode.SUCCESS, body=encode_body(self.route())))
        elif request.code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
            answer.fire(RemotingCommand(ResponseCode.SUCCESS))
        else:
            self.calls.append((address, request, timeout))
            self._answer(answer, address)
        return answer

    def _answer(self, answer: Waiter[RemotingCommand], address: str) -> None:
        outcomes = self.outcomes.get(address, [])
        outcome = outcomes.pop(0) if outcomes else stored()
        if outcome is None:
            self.pending.append(answer)
        elif isinstance(outcome, Exception):
            answer.fail(outcome)
        else:
            answer.fire(outcome)

    def oneway(self, address: str, request: RemotingCommand) -> None:
        self.oneways.append((address, request))

    def serve(self, asked: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]) -> None:
        self.asked = asked

    def adopt(self, outcome: Any) -> Waiter[Any]:
        return outcome if isinstance(outcome, Waiter) else Task(outcome)

    def close(self) -> Waiter[None]:
        closed: Waiter[None] = Waiter()
        closed.fire(None)
        return closed

    # ---- its cluster

    def route(self) -> TopicRoute:
        """Of any topic."""
        count = self.queues
        return TopicRoute(
            broker_datas=[
                BrokerData(broker_addrs={0: f"{name}:1"}, broker_name=name, cluster="C")
                for name in self.brokers
            ],
            queue_datas=[
                QueueData(broker_name=name, perm=6, read_queue_nums=count, write_queue_nums=count)
                for name in self.brokers
            ],
        )

    def asked_of(self) -> str:
        """Who was called, in order, as a word of broker names."""
        return "".join(address[0] for address, _, _ in self.calls)


def stored(code: int = ResponseCode.SUCCESS) -> RemotingCommand:
    """The answer to a send that a broker stored."""
    return RemotingCommand(code, ext={"msgId": "0" * 32, "queueId": "0", "queueOffset": "7"})


def gone(address: str) -> ConnectFailed:
    """A broker that can't be reached."""
    return ConnectFailed(address, "refused")
