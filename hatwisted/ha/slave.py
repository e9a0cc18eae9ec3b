"""The dialling side of the HA link: connect, say where our log ends, store what comes, acknowledge, repeat.

One read of the socket is one append and one acknowledgement, however many frames it brought: reports are
cumulative, so the last one says it all. A slave reports at once when it has connected; RocketMQ's waits for
five idle seconds first, on an otherwise working link.

Whatever goes wrong ends the link, never the service, and leaves the log at a frame's end with its true size
to be reported next time: nothing is skipped, nothing is repaired by guessing. The reason stays visible in the
state and decides when to dial again (`slavestate`).

Rejected: reusing a link after a mismatch (the stream can't be re-positioned on this wire), and keeping
frames that the store refused in memory (the master has them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hatwisted.ha.classic import ClassicDialect
from hatwisted.ha.errors import FrameMismatch
from hatwisted.ha.haclient import HAClient, HAClientFactory
from hatwisted.ha.handshake import Handshake
from hatwisted.ha.interfaces import FlushNow, IHaDialect, IMasterLog, Objection
from hatwisted.ha.refusals import RefusalLog
from hatwisted.ha.settings import SlaveSettings
from hatwisted.ha.slavestate import (
    HEALTHY_AFTER,
    RETRY_LIMIT,
    Backoff,
    HAClientStatus,
    SlaveEvent,
    SlaveState,
    StateBox,
)
from hatwisted.remoting.interfaces import IConnecting
from hatwisted.store.interfaces import IReplicatedLog
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.haframe import HaAck
from hatwisted.wire.hostport import host_and_port

CONNECT_TIMEOUT = 5.0
"""Seconds for one attempt to connect, as RocketMQ."""

UNREACHABLE = "master can't be reached"
CLOSED_BY_MASTER = "closed by the master or the network"

ADDRESS_LOOK = 1.0
"""Seconds between two looks for a master address while there is none (RocketMQ: 5)."""

FRUITLESS_LIMIT = 3
"""Links in a row that the master closed soon and without a byte of log, before we take that for "I haven't
got your offset": RocketMQ's master has no other way to say so, and a restart now and then looks the same
once."""

FRUITLESS_TIME = 30.0
"""Seconds; a link that lasted longer was idle, not refused."""


@dataclass(frozen=True, kw_only=True)
class SlaveParts:
    """What a slave's end of the HA link works with.

    - log: where the bytes go; flush_now: syncs what is written and fires when `log.flushed_offset` tells how far
      that went, needed for `haAck=durable`
    - clock, connecting, random: times, makes the link, jitters its retries
    - master_address: the master's HA address, "host:port", None while it isn't known; asked before each dial
    - master_log: asks the master outside of the link; None if it can't be asked
    - objection: says why a master can't be copied, or None, once it has asked it; never fails
    - at_rest: called when a link has copied much and does so no more
    """

    log: IReplicatedLog
    clock: IReactorTime
    connecting: IConnecting
    random: Random
    master_address: Callable[[], str | None]
    master_log: IMasterLog | None = None
    flush_now: FlushNow | None = None
    objection: Objection | None = None
    at_rest: Callable[[], object] = lambda: None


class HAClientService(Service):
    """Keeps a slave's log a copy of its master's. The master's address is looked up for each dial; an
    established link isn't cut when the address changes.

    - parts: what the slave has around it
    - settings: time limits, what is acknowledged
    - dialect: the HA protocol; None: RocketMQ 4's
    """

    _logger = Logger()
    name = "ha-client"

    def __init__(
        self,
        parts: SlaveParts,
        settings: SlaveSettings | None = None,
        dialect: IHaDialect | None = None,
    ) -> None:
        clock = parts.clock
        self.log = parts.log
        self.clock = clock
        self.settings = settings or SlaveSettings()
        if self.settings.ack is HaAck.DURABLE and parts.flush_now is None:
            raise ValueError("haAck=durable needs a log that can be flushed")
        self.flush_now = parts.flush_now
        self._handshake = Handshake(self, parts.master_log, parts.objection)
        self.dialect: IHaDialect = dialect or ClassicDialect()
        self.connects_total = 0
        self.link_ends: Counter[str] = Counter()
        """By why: a SlaveEvent, UNREACHABLE or CLOSED_BY_MASTER."""
        self.suspect_from: int | None = None
        self._heard = 0
        """Bytes of links that have ended."""
        self._parts = parts
        self._fit_listeners: list[Callable[[], None]] = []
        self._address: str | None = None
        self._box = StateBox(clock.seconds())
        self._backoff = Backoff(parts.random)
        self._complaints = RefusalLog(clock)
        self._problem = ""
        self._fruitless = 0
        self._link: HAClient | None = None
        self._dialling: Deferred[Any] | None = None
        self._dialler = GuardedTimer(clock, "dialling the master", self._dial, RETRY_LIMIT)
        self._look_loop = PeriodicCall(clock, "checking the HA link", self._look)

    # -- life ----------------------------------------------------------------------------------

    def startService(self) -> None:
        """Dial as soon as there is an address."""
        super().startService()
        if self.settings.warning is not None:
            # Not `warning=`: Twisted takes that key for a Python warning.
            self._logger.warn("{line}", line=self.settings.warning)
        self._on(SlaveEvent.START)
        self._look_loop.start(self.settings.look_interval)
        self._dialler.fire()

    def stopService(self) -> Deferred[None]:
        """Close the link; what was appended has been reported. Fires when the socket is closed."""
        super().stopService()
        self._on(SlaveEvent.STOP)
        self._look_loop.stop()
        self._dialler.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if self._link is None:
            return succeed(None)
        closed = self._link.closed
        self._link.close()
        return closed

    def on_fit(self, listener: Callable[[], None]) -> None:
        """Call `listener` when `fits` has become true, or may have become false."""
        self._fit_listeners.append(listener)

    @property
    def state(self) -> SlaveState:
        """Where the slave stands."""
        return self._box.state

    @property
    def fits(self) -> bool:
        """Is there a link to a master whose log has what ours ends with? Any has it of an empty one."""
        return self._link is not None and self._link.fits

    @property
    def agrees(self) -> bool:
        """Is there a link over which the end of our log has been found to be the master's?"""
        return self.state is SlaveState.TRANSFER and self._link is not None and self._link.progressed

    @property
    def heard(self) -> int:
        """Bytes that links have brought so far, heartbeats included. Who has brought more since was alive then."""
        return self._heard + (0 if self._link is None else self._link.received.total)

    def _on(self, event: SlaveEvent) -> None:
        self._box.on(event, self.clock.seconds())

    # -- dialling ------------------------------------------------------------------------------

    def _dial(self) -> Deferred[Any] | None:
        self._address = address = self._parts.master_address()
        if not address:
            self._dialler.set(ADDRESS_LOOK)
            return None
        self._on(SlaveEvent.DIAL)
        try:
            host, port = host_and_port(address)
        except ValueError as error:
            self._unreachable(Failure(error), address)
            return None
        try:
            connecting: Deferred[Any] = self._parts.connecting.endpoint(host, port, CONNECT_TIMEOUT).connect(
                HAClientFactory(self)
            )
        except Exception:
            self._on(SlaveEvent.LOSE)
            raise
        connecting.addTimeout(CONNECT_TIMEOUT, self.clock)
        if not connecting.called:
            self._dialling = connecting
        return connecting.addErrback(self._unreachable, address)

    def _unreachable(self, failure: Failure, address: str) -> None:
        self._dialling = None
        if not self.running:
            return
        self._on(SlaveEvent.LOSE)
        self.link_ends[UNREACHABLE] += 1
        self._problem = f"can't connect to the master's HA port {address}: {failure.getErrorMessage()}"
        self._complaints.complain(address, self._problem)
        self._dial_later(healthy=False, progressed=False)

    def _dial_later(self, healthy: bool, progressed: bool) -> None:
        delay = self._backoff.after(self.state, healthy, progressed)
        self._dialler.set(delay)

    # -- what the link tells -------------------------------------------------------------------

    def connected(self, link: HAClient) -> None:
        """A connection is made: find out what to report first."""
        self._dialling = None
        if not self.running or self._link is not None:
            link.abort()
            return
        self._link = link
        self.connects_total += 1
        self._on(SlaveEvent.CONNECT)
        self._logger.info("HA link to master {peer} established", event="link.up", peer=link.peer)
        self._handshake.begin(link)

    def accepted(self) -> None:
        """The link's first frame fits our log."""
        self._problem = ""

    def copying(self, link: HAClient, start: int) -> None:
        """The link's first bytes of log are stored, at offset `start`."""
        self._fruitless = 0
        if link.plan is not None and link.plan.wants_all and start:
            self._logger.warn(
                "haFirstSync=minOffset, but the master sends its log from offset {start} on: older "
                "bytes will be missing here; let this slave reach the master's listenPort, or set "
                "haFirstSync on "
                "the master",
                start=start,
            )

    def fitted(self) -> None:
        """The link `fits` from now on."""
        for listener in self._fit_listeners:
            listener()

    def proved(self) -> None:
        """The master's log holds what ours ends with: the two are one log."""
        self._fruitless = 0
        self.suspect_from = None

    def rested(self) -> None:
        """A link has copied much, and does so no more."""
        self._parts.at_rest()

    # -- what can go wrong ---------------------------------------------------------------------

    def mismatch(self, link: HAClient, error: FrameMismatch) -> None:
        """A frame doesn't continue our log; as a link's first word and without bytes it's a refusal."""
        asked = link.plan.report if link.plan is not None else 0
        if error.size == 0 and asked and not link.got_bytes and error.offered >= 0:
            self.master_lacks(link, error.offered, begins=error.offered > asked)
        else:
            self.fail(link, SlaveEvent.MISMATCH, f"{error}; nothing of it was stored")

    def master_lacks(self, link: HAClient, nearest: int, *, begins: bool) -> None:
        """The master's log doesn't hold what we asked for.

        - link: to that master
        - nearest: the closest offset that it has
        - begins: does its log begin there, or end?
        """
        end = self.log.max_offset
        if begins:
            text = (
                f"our log ends at {end}, the master's begins at {nearest}: what lies between has expired "
                "there; empty this slave's store, so that it copies from the start"
            )
        else:
            self.suspect_from = nearest
            text = (
                f"our log ends at {end}, the master's at {nearest}: we hold {end - nearest} bytes that "
                "it doesn't have; 'hatwisted log compare' and 'log cut' make this log match again"
            )
        self.fail(link, SlaveEvent.LACK, text)

    def store_full(self, link: HAClient, reason: str) -> None:
        """The store has no room."""
        self.fail(link, SlaveEvent.FULL, f"store full at offset {self.log.max_offset}: {reason}")

    def store_failed(self, link: HAClient, reason: str) -> None:
        """The store couldn't write or sync."""
        self.fail(link, SlaveEvent.FAIL, f"store failed at offset {self.log.max_offset}: {reason}")

    def fail(self, link: HAClient, event: SlaveEvent, text: str) -> None:
        """Give a link up.

        - link: which
        - event: why
        - text: why, for people
        """
        if link.failed:
            return
        if event is not SlaveEvent.LOSE:
            self._on(event)
        self._problem = text
        self.link_ends[event.value] += 1
        self._complaints.complain(f"master {link.peer}", text, error=True)
        link.abort()

    def lost(self, link: HAClient, reason: Failure) -> None:
        """The connection is gone."""
        if self._link is not link:
            return
        self._link = None
        self._heard += link.received.total
        if not self.running:
            return
        now = self.clock.seconds()
        if not link.failed:
            self.link_ends[CLOSED_BY_MASTER] += 1
            self._problem = f"HA link to master {link.peer} lost: {reason.getErrorMessage()}"
            self._logger.info("{problem}", problem=self._problem)
            self._judge_end(link, reason, now)
        self._on(SlaveEvent.LOSE)
        for listener in self._fit_listeners:
            listener()
        healthy = link.progressed and now - link.begun_at >= HEALTHY_AFTER
        self._dial_later(healthy, link.progressed)

    def _judge_end(self, link: HAClient, reason: Failure, now: float) -> None:
        """Was that the third time that the master hung up on our offset?"""
        plan = link.plan
        if plan is None or not plan.report or link.got_bytes or not reason.check(ConnectionDone):
            return
        if not link.told:
            return  # it was reset: a write that fails takes the word away, and the next read finds an orderly end
        if now - link.begun_at > FRUITLESS_TIME:
            self._fruitless = 0
            return
        self._fruitless += 1
        if self._fruitless >= FRUITLESS_LIMIT:
            self._on(SlaveEvent.LACK)
            self._problem = (
                f"the master closed {self._fruitless} links in a row after our report of {plan.report} "
                "without sending a byte of log: it most likely doesn't have that offset; compare "
                "commitLogMinOffset and commitLogMaxOffset of both brokers"
            )
            self._complaints.complain(f"master {link.peer}", self._problem, error=True)

    # -- clock and monitoring ------------------------------------------------------------------

    def _look(self) -> None:
        if self._link is not None:
            self._link.look(self.clock.seconds())

    def status(self) -> HAClientStatus:
        """The state of affairs."""
        link = self._link
        return HAClientStatus(
            state=self.state.value,
            since=self._box.since,
            problem=self._problem,
            master_address=self._address,
            max_offset=self.log.max_offset,
            flushed_offset=self.log.flushed_offset,
            reported_offset=link.reported if link is not None else -1,
            last_read=link.last_read if link is not None else 0.0,
            last_write=link.last_report if link is not None else 0.0,
            received_per_second=link.received.per_second if link is not None else 0,
            connects_total=self.connects_total,
            retry_at=self._dialler.due,
            suspect_from=self.suspect_from,
        )
