"""The demo from beginning to end: start, send, compare the logs, read back from the slave, land, audit and report
with Spark, stay or stop.

The result is the process's exit status: 0 if every message was stored, the logs are equal, every message came
back from the slave as it was sent, and the audit found no difference. Where the data pipeline isn't installed,
its part is left out with a notice, and that isn't a failure.
"""

from __future__ import annotations

import time
from os.path import join
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks, maybeDeferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from hatwisted import client
from hatwisted.clientcore.errors import BrokerGone, CallFailed, ClientError, NoRoute, Refused
from hatwisted.demo.cluster import Cluster, DemoError
from hatwisted.demo.consumer import Consumer, ReadBackError
from hatwisted.demo.inputs import InputError, Source
from hatwisted.demo.logcompare import compare_logs
from hatwisted.demo.monitor import UNKNOWN, Monitor
from hatwisted.demo.pipelineprocess import INSTALL, PipelineProcess, missing_packages
from hatwisted.demo.producer import Producer
from hatwisted.demo.screen import Screen, messages
from hatwisted.store.errors import StoreError
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.wire.storenames import LOG_FOLDER
from hatwisted.wire.topics import AUTO_CREATE_TOPIC

REDRAW = 0.25  # s between two looks at the brokers and redraws of the table
LINK_LIMIT = 60.0  # s for the slave to find its master by the name server and connect
CATCH_UP_LIMIT = 60.0  # s without progress of a slave that still lags when everything is sent
POLL = 0.1  # s between two looks at a condition
BROKER_IDS = (0, 1)  # master, slave

# Errors of the input or of a process, reported in one line; anything else is a bug and shown in full.
EXPECTED = (
    DemoError,
    InputError,
    ReadBackError,
    ClientError,
    CallFailed,
    Refused,
    StoreError,
    OSError,
)


class Scenario:
    """One run. `status` is the exit status so far: 1 until every check has passed.

    - reactor: the process's
    - cluster: the servers
    - source: what is sent
    - screen: shows how it goes
    - once: end after the checks instead of going on
    - pipeline: run the jobs as well
    """

    def __init__(
        self, reactor: Any, cluster: Cluster, source: Source, screen: Screen, once: bool, pipeline: bool
    ) -> None:
        self._reactor = reactor
        self._cluster = cluster
        self._source = source
        self._screen = screen
        self._once = once
        self._wants_pipeline = pipeline
        self._pipeline: PipelineProcess | None = None
        self._pipeline_failure: Failure | None = None
        self._link = client.Cluster(reactor, cluster.namesrv)
        self._monitor = Monitor(self._link, cluster.master, cluster.slave)
        self._producer = Producer(self._link)
        self._redraw = PeriodicCall(reactor, "redrawing the table", self._update)
        self._stopping = False
        self.status = 1

    def start(self) -> None:
        """Begin; stops the reactor by itself unless the run is to wait for Ctrl-C."""
        self._reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        maybeDeferred(self._run).addCallbacks(self._succeeded, self._failed).addBoth(self._settled)

    @inlineCallbacks
    def _run(self) -> Any:
        yield self._start_servers()
        begun = time.monotonic()
        self._screen.begin()
        self._redraw.start(REDRAW, now=True)
        yield Deferred.fromCoroutine(self._producer.send_all(self._source))
        seconds = time.monotonic() - begun
        if not self._producer.answered:
            raise DemoError(f"{self._source.name} contains no message, so there's nothing to check")
        yield self._caught_up()
        self._end_live()
        self._screen.step(f"sent {self._source.name}: {messages(self._producer.answered)} in {seconds:.2f} s")
        if self._producer.refusals:
            raise DemoError(
                "refused: " + "; ".join(f"{n} x {why}" for why, n in self._producer.refusals.items())
            )
        # Spark starts while messages are read from the slave, which mostly waits for its topics.
        self._start_pipeline()
        yield self._compare_logs()
        yield self._read_back()
        yield self._run_pipeline()

    @inlineCallbacks
    def _start_servers(self) -> Any:
        yield self._cluster.start(self._link)
        for name, pid in self._cluster.pids().items():
            self._screen.step(f"{name}: pid {pid}, {getattr(self._cluster, name)}")
        brokers = yield self._until(self._registered, LINK_LIMIT, "both brokers are known to the name server")
        yield self._until(self._linked, LINK_LIMIT, "the slave is linked to its master")
        self._screen.step(
            f"the name server routes to master {brokers[0]} and slave {brokers[1]}; the slave follows its master"
        )

    @inlineCallbacks
    def _registered(self) -> Any:
        try:
            route = yield self._link.admin().route(AUTO_CREATE_TOPIC)
        except (BrokerGone, NoRoute):
            return None
        brokers = route.broker_datas[0].broker_addrs
        return brokers if len(brokers) == len(BROKER_IDS) else None

    @inlineCallbacks
    def _linked(self) -> Any:
        figures = yield self._monitor.refresh()
        return figures.slave_ack_offset != UNKNOWN

    @inlineCallbacks
    def _caught_up(self) -> Any:
        before, give_up = UNKNOWN, self._reactor.seconds() + CATCH_UP_LIMIT
        while True:
            figures = yield self._monitor.refresh()
            if figures.slave_offset >= figures.master_offset and figures.lag == 0 == figures.slave_behind:
                self._update_now()
                return
            if figures.slave_offset > before:
                before, give_up = figures.slave_offset, self._reactor.seconds() + CATCH_UP_LIMIT
            if self._reactor.seconds() > give_up:
                raise DemoError(f"the slave is at {figures.slave_offset} of {figures.master_offset}")
            yield deferLater(self._reactor, POLL)

    @inlineCallbacks
    def _compare_logs(self) -> Any:
        master, slave = (join(self._cluster.store(name), LOG_FOLDER) for name in ("master", "slave"))
        found = yield deferToThread(compare_logs, master, slave, self._monitor.figures.master_offset)
        if found.differs_at is not None:
            raise DemoError(f"the commit logs differ at offset {found.differs_at}")
        self._screen.step(
            f"the two commit logs are byte-identical: {found.size:,} bytes, SHA-256 {found.digest[:16]}…"
        )

    @inlineCallbacks
    def _read_back(self) -> Any:
        consumer = Consumer(self._link, self._reactor, self._cluster.slave)
        yield consumer.read_all(self._producer.stored)
        wanted = self._producer.answered
        if consumer.read != wanted:
            raise DemoError(f"{consumer.read} of {wanted} messages came back from the slave")
        self._screen.step(f"read back from the slave: {messages(consumer.read)}, each as it was sent")

    def _start_pipeline(self) -> None:
        if not self._wants_pipeline:
            return
        missing = missing_packages()
        if missing:
            self._screen.note(
                f"no table and no report, as {', '.join(missing)} isn't installed: {INSTALL} for the data pipeline"
            )
            return
        self._pipeline = PipelineProcess(self._reactor, self._screen, self._cluster.folder)
        self._pipeline.ended.addErrback(self._remember_failure)
        self._pipeline.spawn(self._cluster.store("master"), self._cluster.store("slave"))

    def _remember_failure(self, failure: Failure) -> None:
        """Kept until it is waited for."""
        self._pipeline_failure = failure

    @inlineCallbacks
    def _run_pipeline(self) -> Any:
        if self._pipeline is None:
            return
        self._pipeline.begin()
        yield self._pipeline.ended
        if self._pipeline_failure is not None:
            self._pipeline_failure.raiseException()

    @inlineCallbacks
    def _until(self, condition: Any, limit: float, what: str) -> Any:
        give_up = self._reactor.seconds() + limit
        while True:
            result = yield condition()
            if result:
                return result
            if self._reactor.seconds() > give_up:
                raise DemoError(f"gave up after {limit:.0f} s waiting until {what}")
            yield deferLater(self._reactor, POLL)

    # -- the live table

    def _update(self) -> Deferred[None]:
        refreshed: Deferred[Any] = self._monitor.refresh()
        return refreshed.addCallback(lambda _: self._update_now())

    def _update_now(self) -> None:
        producer, source = self._producer, self._source
        self._screen.update(
            self._monitor.figures, producer.statuses, source.position, source.total, producer.answered
        )

    def _end_live(self) -> None:
        self._redraw.stop()
        self._screen.end()

    # -- the end

    def _succeeded(self, _: object) -> None:
        self.status = 0

    def _failed(self, failure: Failure) -> None:
        self._end_live()
        if self._stopping:
            return
        if failure.check(*EXPECTED):
            self._screen.failure(failure.getErrorMessage())
        else:
            self._screen.failure(failure.getTraceback())

    def _settled(self, _: object) -> None:
        if self._stopping:
            return
        if self._once or not self._cluster.pids():
            self._reactor.stop()
            return
        self._screen.note(
            f"everything keeps running, with stores and logs in {self._cluster.folder}; Ctrl-C ends it"
        )

    @inlineCallbacks
    def _stop(self) -> Any:
        self._stopping = True
        self._end_live()
        if self._pipeline is not None:
            self._pipeline.stop()
        yield self._link.close()
        started = self._cluster.pids()
        yield self._cluster.stop()
        if started:
            self._screen.step("all processes have ended")
