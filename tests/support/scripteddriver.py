"""A driver for the client's logic on a clock of the test's: what servers answer is the test's word, and neither a
socket nor a loop stands below it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from twisted.internet.task import Clock

from hatwisted.clientcore.driver import Answer, StandardLog
from hatwisted.clientcore.errors import CallTimedOut
from hatwisted.clientcore.process import LocalFile
from hatwisted.clientcore.tasks import Timer, Waiter
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.registration import BrokerData, QueueData, TopicRoute, encode_body
from hatwisted.wire.remoting import RemotingCommand

NAME_SERVER = "10.0.0.9:9876"
OFFSET_ID = "7F00000100002A9F000000000000002A"

Groups = dict[str, dict[int, str]]
"""Of each broker group: id -> address."""


class Asked(NamedTuple):
    """A request, and the seconds its answer was waited for; None: oneway."""

    address: str
    request: RemotingCommand
    timeout: float | None


class FirstOfAll(Random):
    """Whose turn it is first, is no chance."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """The least."""
        return 0 if stop is None else start


class ScriptedDriver:
    """Provider of Driver. Each call is in `calls`, as (second, address, code), and whole in `requests`.

    groups: what the name server says of every topic
    answer: what brokers say; None: nothing in time
    """

    def __init__(
        self, groups: Groups, answer: Callable[[str, RemotingCommand], RemotingCommand | None]
    ) -> None:
        self.groups = groups
        self.queues = 2
        """Of each group."""
        self.unknown: set[str] = set()
        """Topics without a route."""
        self.answer = answer
        self.clock = Clock()
        self.randomness = FirstOfAll(1)
        self.process_name = "host@1"
        self.file = LocalFile
        self.log = StandardLog("scripted")
        self.calls: list[tuple[float, str, int]] = []
        self.requests: list[Asked] = []

    def calls_of(self, code: int) -> list[tuple[float, str]]:
        """(second, address) of the calls with this code."""
        return [(at, address) for at, address, called in self.calls if called == code]

    def asked(self, code: int) -> list[Asked]:
        """The requests with this code."""
        return [each for each in self.requests if each.request.code == code]

    def pass_time(self, seconds: float, step: float = 0.25) -> None:
        """Time passes in steps."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)

    def route(self) -> TopicRoute:
        """The name server's word."""
        return TopicRoute(
            broker_datas=[
                BrokerData(broker_addrs=dict(addresses), broker_name=name, cluster="C")
                for name, addresses in self.groups.items()
            ],
            queue_datas=[
                QueueData(broker_name=name, perm=6, read_queue_nums=self.queues, write_queue_nums=self.queues)
                for name in self.groups
            ],
        )

    # ---- Driver

    def seconds(self) -> float:
        """As Driver."""
        return self.clock.seconds()

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        """As Driver."""
        return self.clock.callLater(seconds, work)

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        """As Driver."""
        self._note(address, request, timeout)
        waiter: Waiter[RemotingCommand] = Waiter()
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            known = request.ext["topic"] not in self.unknown
            body = encode_body(self.route()) if known else b""
            code = ResponseCode.SUCCESS if known else ResponseCode.TOPIC_NOT_EXIST
            waiter.fire(RemotingCommand(code, flag=1, body=body))
            return waiter
        self.clock.callLater(timeout, waiter.fail, CallTimedOut(address, f"no answer in {timeout:g} s"))
        try:
            answer = self.answer(address, request)
        except Exception as error:
            waiter.fail(error)
        else:
            if answer is not None:
                waiter.fire(answer)
        return waiter

    def oneway(self, address: str, request: RemotingCommand) -> None:
        """As Driver."""
        self._note(address, request, None)

    def _note(self, address: str, request: RemotingCommand, timeout: float | None) -> None:
        self.calls.append((self.clock.seconds(), address, int(request.code)))
        self.requests.append(Asked(address, request, timeout))

    def serve(self, asked: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]) -> None:
        """As Driver: a test asks by `ask`, and breaks connections by `lose`."""
        self.ask, self.lose = asked, lost

    def adopt(self, outcome: Any) -> Waiter[Any]:
        """As Driver; there is nothing to adopt."""
        raise NotImplementedError(f"{outcome!r} can't be waited for here")

    def close(self) -> Waiter[None]:
        """As Driver."""
        done: Waiter[None] = Waiter()
        done.fire(None)
        return done


def stored(code: int = 0) -> RemotingCommand:
    """A broker's answer to a send that it has stored."""
    return RemotingCommand(code, flag=1, ext={"msgId": OFFSET_ID, "queueId": "0", "queueOffset": "9"})
