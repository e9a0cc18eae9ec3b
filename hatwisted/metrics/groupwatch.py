"""The group that a broker belongs to: its master, its slaves and its name servers, asked over their ports while
somebody looks at the live page. About itself the broker is asked without a connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.broker.node.brokernode import BrokerNode
from hatwisted.client.driver import deferred
from hatwisted.clientcore import process
from hatwisted.clientcore.driver import Answer
from hatwisted.clientcore.errors import Refused
from hatwisted.clientcore.session import Session
from hatwisted.clientcore.survey import Survey
from hatwisted.clientcore.tasks import Timer, Waiter
from hatwisted.health.events import events, label
from hatwisted.health.figures import BrokerFigures, Look, View
from hatwisted.metrics.eventfeed import LONGEST, MOST, Told
from hatwisted.metrics.looking import look_at_group
from hatwisted.remoting.twistedlog import TwistedLog
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.registration import MASTER_ID, BrokerData
from hatwisted.wire.remoting import RemotingCommand

INTERVAL: Final = 2.0
"""Seconds between two looks at the others."""
REMEMBERED: Final = 600.0
"""Seconds for which one that has left is missed: it may have been taken away for good."""
WORRYING: Final = ("broker-left", "broker-silent", "name-server-silent", "log-shorter", "link-problem")
"""Events of others that are shown as warnings are."""


class GroupWatch:
    """Looks when somebody wants to know. node: the broker whose group it is."""

    _log = Logger()

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._clock = node.parts.clock
        self._looked = 0.0
        self._looking = False
        self._known: dict[int, BrokerFigures] = {}
        self.view: View | None = None
        """By the last look; None: there was none yet."""
        self.told: deque[Told] = deque(maxlen=MOST)
        """What has happened to the others between two looks, in the words of `hatwisted status`."""

    def look_soon(self) -> None:
        """Somebody looks at the page: look at the others, unless that was done a moment ago."""
        if self._looking or not self._node.running or self._clock.seconds() - self._looked < INTERVAL:
            return
        self._looking, self._looked = True, self._clock.seconds()
        self._look().addCallbacks(self._seen, self._unseen)

    def _look(self) -> Deferred[Look]:
        parts, servers = self._node.parts, self._node.parts.config.config.name_servers
        itself = parts.identity.address
        session = Session(_NodeDriver(self._node), servers or (itself,), itself)
        own = BrokerData(broker_name=parts.identity.name, cluster=parts.identity.cluster)
        own.broker_addrs[parts.role.broker_id] = parts.identity.address
        if parts.role.slave and parts.master.tables is not None:
            own.broker_addrs[MASTER_ID] = parts.master.tables
        return deferred(look_at_group(Survey(session), own, by_names=bool(servers)))

    def _seen(self, look: Look) -> None:
        self._looking = False
        before = look if self.view is None else self.view.now
        present = {each.id for each in look.brokers}
        self._known = {
            number: each for number, each in self._known.items() if look.at - each.at < REMEMBERED
        } | {each.id: each for each in look.brokers}
        left = [each for number, each in sorted(self._known.items()) if number not in present]
        self.view = View(before=before, now=look, left=left)
        itself = {label(each) for each in look.brokers if each.id == self._node.parts.role.broker_id}
        for each in events(before, look):
            if each.where not in itself:
                level = "warn" if each.name in WORRYING else "info"
                self.told.append(Told(each.at, level, each.name, f"{each.where}: {each.what}"[:LONGEST]))

    def _unseen(self, failure: Failure) -> None:
        self._looking = False
        self._log.failure("looking at the group failed", failure)


class _NodeDriver:
    """Asks by the broker's own client; itself by its own processors."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._client = node.parts.client
        self._clock = node.parts.clock
        self.log = TwistedLog("hatwisted.metrics")
        self.seconds = self._clock.seconds
        self.randomness = Random(0)
        self.process_name = node.parts.identity.address
        self.oneway = self._client.oneway
        self.file: Callable[[Path], process.LocalFile] = process.LocalFile

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        return self._clock.callLater(seconds, work)

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        if address == self._node.parts.identity.address:
            return self.adopt(maybeDeferred(self._own, request))
        return self.adopt(self._client.call(address, request, timeout))

    def _own(self, request: RemotingCommand) -> Any:
        handlers = self._node.parts.processors.joined(self._node.services.processors).handlers
        handler: Any = handlers.get(request.code)
        if handler is None:
            raise Refused("itself", ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "")
        return handler(None, request)

    def serve(
        self, on_request: Callable[[str, RemotingCommand], Answer], lost: Callable[[str], None]
    ) -> None:
        """Nobody asks back."""

    def adopt(self, outcome: Any) -> Waiter[Any]:
        adopted: Waiter[Any] = Waiter()
        ensureDeferred(outcome).addCallbacks(adopted.fire, lambda failure: adopted.fail(failure.value))
        return adopted

    def close(self) -> Waiter[None]:
        done: Waiter[None] = Waiter()
        done.fire(None)
        return done
