"""A simulated machine: its disk and address stay, processes come and go.

A process is what `boot` starts: a service built of parts that end with it. `kill` is kill -9 (the page cache
stays, the kernel tells the peers), `power_off` takes the page cache and notifies no one; a failure of power that
strikes within an operation of the disk (`SimDisk.strike`) ends the process there and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from twisted.application.service import IService
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from hatwisted.assembly.parts import Parts
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.sim.simclock import PowerLoss, SimCall, SimClock
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.simworker import SimWorker
from hatwisted.sim.trace import Trace
from hatwisted.store.errors import StoreError

MEMORY_BYTES = 1 << 20
"""Physical memory, as the brokers see it: small, so that old messages are met."""

FIRST_PID = 100

ROUNDING = 1e-6
"""Seconds, more than what the times of clocks at different speeds are rounded by."""

CLOSING = 1.0
"""Seconds between a service's stop and its process's end: connections that it has closed are gone by then."""

Build = Callable[[Parts], Any]
"""Makes a process's service of parts: an IService, with whatever else its maker wants to look at."""


@implementer(IReactorTime)
class ProcessClock:
    """The time of one process: what it has planned happens while it lives and runs.

    - clock: the simulation's
    - ahead: seconds by which its own time is ahead
    - speed: seconds of its own time in one of the simulation's, since that began
    """

    def __init__(self, clock: SimClock, ahead: float, speed: float = 1.0) -> None:
        self.alive = True
        self.paused_until = 0.0
        self.ahead = ahead
        self.speed = speed
        self.workers: dict[str, SimWorker] = {}
        """Its threads, by name."""
        self._clock = clock

    def seconds(self) -> float:
        """See IReactorTime."""
        now = self._clock.now
        return now + self.ahead if self.speed == 1.0 else self.shows(now)

    def shows(self, time: float) -> float:
        """Its own time at a time of the simulation's."""
        return time + self.ahead + (time - self._clock.start) * (self.speed - 1.0)

    def leap(self, seconds: float) -> None:
        """So much time is gone at once, as after a sleep; what would have been due meanwhile is due now."""
        self.ahead += seconds
        for call in self.getDelayedCalls():
            if call.planned != self.paused_until:  # what is due waits for the pause's end
                call.move(max(self._clock.seconds(), call.planned - seconds / self.speed))

    def pause(self, seconds: float) -> None:
        """It stands still for so long from now on, whatever it was to do before; 0: it goes on."""
        now, ended = self._clock.seconds(), self.paused_until
        self.paused_until = now + seconds
        if ended > now:
            for call in self.getDelayedCalls():
                if call.planned == ended:
                    call.move(self.paused_until)

    def callLater(self, delay: float, callable: Callable[..., object], *args: Any, **kw: Any) -> SimCall:
        """See IReactorTime."""
        # As a reactor, which calls nothing before its own clock shows the time.
        rounded = delay if self.speed == 1.0 else delay / self.speed + ROUNDING
        return self._clock.call_for(self, rounded, callable, args, kw)

    def getDelayedCalls(self) -> Sequence[SimCall]:
        """See IReactorTime: this process's own."""
        return [call for call in self._clock.getDelayedCalls() if call.owned_by(self)]


class Machine:
    """One host, without a process at first.

    - name: for messages
    - address: its IP address
    - clock, network, trace: the simulation's
    - random: draws what chance decides of disk and threads
    """

    def __init__(
        self, name: str, address: str, clock: SimClock, network: MemoryNetwork, trace: Trace, random: Random
    ) -> None:
        self.name = name
        self.address = address
        self.disk = self._new_disk(clock, trace)
        self.work_delay = 0.002
        """Most seconds that half a blocking call takes."""
        self.powered = True
        self.service: Any = None
        """The process's service, while there is one."""
        self.process: ProcessClock | None = None
        self.left_open: list[str] = []
        """What the last process that stopped in order still held."""
        self.gone: list[Any] = []
        """Services of processes that were killed: kept, or the collector would close their coroutines at any time,
        and run what these do at their end."""
        self.losses = 0
        """How often the power has failed."""
        self.bad_losses = 0
        """How often it has when it could take something: all is synced once a process has stopped in order."""
        self.deaths = 0
        """How often a process has ended without having stopped."""
        self.ahead = 0.0
        """Seconds by which its clock is ahead. A process that runs never goes back."""
        self.speed = 1.0
        """Seconds that its clock counts in one."""
        self.ended_at = 0.0
        """Clock seconds when the last process ended that had come to serve: one whose start fails brings nothing
        new to the disk."""
        self._served = False
        """Has the present process?"""
        self._in_order = False
        """Had the last one that served stopped?"""
        self._boots = 0
        self._clock = clock
        self._network = network
        self._trace = trace
        self._random = random

    def _new_disk(self, clock: SimClock, trace: Trace) -> SimDisk:
        disk = SimDisk(clock.seconds, trace)
        disk.on_power_loss = self._power_failed
        return disk

    def empty_disk(self) -> None:
        """Remove everything from the disk; only while no process runs."""
        self.disk = self._new_disk(self._clock, self._trace)

    @property
    def running(self) -> bool:
        """Is there a process?"""
        return self.process is not None

    @property
    def hears(self) -> bool:
        """Does anybody take what arrives, if only to refuse it?"""
        if not self.powered:
            return False
        return self.process is None or self.process.paused_until <= self._clock.now

    def boot(self, build: Build) -> bool:
        """Start a process. False if the power failed meanwhile; raises what the service's start does."""
        if self.running:
            raise RuntimeError(f"{self.name} runs")
        self.powered = True
        # What a process without power was still about to open when it met its end.
        self._network.vanish(self.address, told=False)
        self._boots += 1
        process = self.process = ProcessClock(self._clock, self.ahead, self.speed)
        self._trace.note(f"boot {self.name}")
        try:
            self.service = service = build(self._parts(process, self.address))
            IService(service).startService()
        except PowerLoss:
            return False
        except BaseException:
            self.kill()
            raise
        self._served = self.running
        return self.running

    def _parts(self, process: ProcessClock, address: str) -> Parts:
        host = self._network.host(address)

        def make_worker(name: str, threads: int) -> SimWorker:
            worker = SimWorker(process, self._random, threads, lambda: self.work_delay)
            process.workers[name] = worker
            return worker

        return Parts(
            clock=process,
            local_time=lambda seconds: datetime.fromtimestamp(seconds, UTC),
            file_system=self.disk,
            make_worker=make_worker,
            listening=host,
            connecting=host,
            resolve=lambda name: bytes(map(int, name.split("."))),
            random=Random(self._random.random()),
            process_id=lambda: FIRST_PID + self._boots,
            boot=f"{self.name} {self.losses}",
            memory_bytes=MEMORY_BYTES,
        )

    def pause(self, seconds: float) -> None:
        """Pause the process for so long."""
        if self.process is not None:
            self.process.pause(seconds)

    def leap(self, seconds: float) -> None:
        """Its clock is ahead by so much more."""
        self.ahead += seconds
        if self.process is not None:
            self.process.leap(seconds)

    def run_twice(self, build: Build) -> bool:
        """Start a second process on the same disk, by mistake. False if it won't run; if it does, it ends at
        once."""
        twin, address = ProcessClock(self._clock, self.ahead, self.speed), f"{self.address}-twin"
        try:
            IService(build(self._parts(twin, address))).startService()
        except (OSError, StoreError, PowerLoss):
            return False
        finally:
            twin.alive = False
            self.deaths += 1
            self._network.vanish(address, told=True)
        return True

    def stop(self) -> Deferred[None]:
        """Stop the service in order; fires with the process's end."""
        process = self.process
        stopping: Deferred[Any] = maybeDeferred(IService(self.service).stopService)
        return stopping.addCallback(self._stopped, process)

    def _stopped(self, _: object, process: ProcessClock | None) -> Deferred[None]:
        ended: Deferred[None] = Deferred()
        self._clock.callLater(CLOSING, self._end_stopped, process, ended)
        return ended

    def _end_stopped(self, process: ProcessClock | None, ended: Deferred[None]) -> None:
        if process is not None and self.process is process:
            self.left_open = self._left_open(process)
            self.kill(in_order=True)
        ended.callback(None)

    def _left_open(self, process: ProcessClock) -> list[str]:
        """What a process that has stopped still holds."""
        now = process.seconds()
        timers = [f"a timer for {call}" for call in process.getDelayedCalls() if call.getTime() > now]
        files = [f"the open file {file.path}" for file in self.disk.open_files]
        locks = [f"the lock {path}" for path in sorted(self.disk.locked)]
        ours = [end for end in self._network.transports if end.getHost().host == self.address]
        ends = [end for end in ours if not end.disconnecting]
        ports = [f"the port {port}" for port in self._network.ports_of(self.address)]
        threads = [f"the threads {name}" for name, worker in process.workers.items() if not worker.stopped]
        peers = [f"a connection to {end.getPeer().host}" for end in ends]
        return timers + sorted(files) + locks + ports + threads + peers

    def kill(self, *, in_order: bool = False) -> None:
        """The process is gone, at once. in_order: it had stopped before."""
        self.deaths += not in_order
        self._end(in_order=in_order)
        self._network.vanish(self.address, told=True)
        self.disk.process_gone()
        self._trace.note(f"kill {self.name}")

    def power_off(self) -> None:
        """The power fails."""
        self.disk.powerless = True
        self._power_failed()

    def _power_failed(self) -> None:
        """The process is gone, and nobody hears of it."""
        self.deaths += 1
        self._end()
        self.losses += 1
        self.bad_losses += not self._in_order
        self.powered = False
        self._network.vanish(self.address, told=False)
        self._trace.note(f"power off {self.name}")

    def power_on(self, kept: float) -> None:
        """The power is back; kept: chance of what wasn't synced to be there all the same."""
        self.disk.reboot(self._random, kept)
        self.powered = True
        self._trace.note(f"power on {self.name}")

    def _end(self, *, in_order: bool = False) -> None:
        if self.process is not None:
            self.process.alive = False
            if self._served:
                self.ended_at, self._in_order = self._clock.seconds(), in_order
            self.gone.append(self.service)
        self.process = None
        self.service = None
        self._served = False
