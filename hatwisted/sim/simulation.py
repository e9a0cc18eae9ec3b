"""A run: the group of a setup, its load and its faults, an operator who starts again what has ended, and the
checks.

The operator looks every quarter of a second. Machines that are down are started when their fault says so, with the
power back if it was gone; a store that can't be opened for want of room or descriptors is tried again. A slave
that stays out because its log isn't a beginning of its master's is emptied, as the documents tell an operator
to.

After the faults everything is well again, and the group has `SETTLE` seconds to be whole: linked, equal, and
taking messages. Then all is stopped in order, and nothing may be left behind.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.nameserver import build_name_server
from hatwisted.ha.slavestate import SlaveState
from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.faultplan import HOSTS, Fault
from hatwisted.sim.history import Sent, Violation
from hatwisted.sim.linkfaults import LinkFaults
from hatwisted.sim.load import QUEUES, TIMEOUT, TOPICS, Load, LoadEvents, LoadPattern
from hatwisted.sim.logwatch import LogWatch
from hatwisted.sim.machine import Machine
from hatwisted.sim.memorynet import MemoryNetwork
from hatwisted.sim.promises import Promises
from hatwisted.sim.setup import ADDRESSES, BROKER_PORT, Setup
from hatwisted.sim.simclock import SimClock
from hatwisted.sim.simdisk import SimDisk, Strike
from hatwisted.sim.storeview import LiveStore
from hatwisted.sim.trace import Trace
from hatwisted.store.errors import DamagedLog, StoreError
from hatwisted.wire.codes import ResponseCode

START = 1_795_221_957.0
"""Seconds since the epoch when a run begins."""

WARM_UP = 6.0
"""Seconds until the group is whole."""

SETTLE = 150.0
"""Seconds to heal, at most: some slow retries of a slave (30 s each), and a registration."""

SETTLE_PAUSE = 1.0
"""Seconds between two sends meanwhile, on average."""

LOOK = 0.25
"""Seconds between two looks of the operator."""

COMPARE = 8
"""Looks between two comparisons of the logs."""

STUCK = 40.0
"""Seconds that a slave may stay out before the operator looks at its log."""

STOP_LIMIT = 90.0
"""Seconds that a stop in order may take."""


class Outcome(msgspec.Struct, kw_only=True):
    """What a run was.

    - violations: in words; none if every promise was kept
    - refusals: starts that a store refused because of damage
    - emptied: slaves emptied by the operator
    - seconds: simulated; turns: calls of the clock
    - digest: of all that happened
    - answers: messages by the answer's code; "none" without one
    - struck: faults that took effect, by kind
    """

    seed: int
    violations: list[str]
    refusals: list[str]
    emptied: int
    seconds: float
    turns: int
    digest: str
    answers: dict[str, int]
    struck: dict[str, int]


class Simulation:
    """One run of `setup`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.clock = SimClock(START)
        self.trace = Trace(self.clock.seconds)
        self.faults = LinkFaults(self._random("network"))
        self.network = MemoryNetwork(
            self.clock, latency=self.faults.latency, piece=self.faults.next_piece, held=self.faults.held
        )
        self.machines = {name: self._machine(name) for name in (*HOSTS, "names")}
        self.master = "a"
        """Name of the machine that the operator calls the master."""
        self.promises = Promises()
        self.violations: list[Violation] = []
        self.refusals: list[str] = []
        self.emptied = 0
        self.struck: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self._active: list[Fault] = []
        self._due: dict[str, float] = {}
        self._down_for: dict[str, float] = {}
        self._kept: dict[str, float] = {}
        self._hands_off: set[str] = set()
        """Machines that the operator leaves alone: they stop in order, or wait for a promotion."""
        self._refused: set[str] = set()
        self._start_error: dict[str, str] = {}
        self._out_since: float | None = None
        self._looks = 0
        self._ending = False
        self._sent_when: dict[int, tuple[str, dict[str, tuple[int, SimDisk]]]] = {}
        """Who was master when a message was sent, and how often the power had failed, on which disk."""
        self._client = RemotingClient(self.network.host(ADDRESSES["clients"]), self.clock)
        self._load = Load(
            self._client,
            self.clock,
            self._random("load"),
            LoadPattern(setup.pause, setup.sizes),
            lambda: f"{ADDRESSES[self.master]}:{BROKER_PORT}",
            LoadEvents(self._sent, self._answered),
        )

    def _random(self, purpose: str) -> Random:
        """Of its own for each purpose, so that a fault left out changes no other's draws."""
        return Random(f"{self.setup.seed}/{purpose}")

    def _machine(self, name: str) -> Machine:
        machine = Machine(name, ADDRESSES[name], self.clock, self.network, self.trace, self._random(name))
        self.faults.machines[machine.address] = machine
        return machine

    @property
    def slave(self) -> str:
        """The other broker's machine."""
        return HOSTS[1 - HOSTS.index(self.master)]

    # -- the run ---------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """To the end, or to the first violation."""
        watch = LogWatch()
        with watch.watching():
            try:
                self._run()
            except _Broken:
                pass
            except Exception:
                self.violations.append(Violation("exception", Failure().getTraceback()))
            self.violations += watch.violations
        return Outcome(
            seed=self.setup.seed,
            violations=[str(violation) for violation in self.violations],
            refusals=self.refusals,
            emptied=self.emptied,
            seconds=self.clock.seconds() - START,
            turns=self.clock.turns,
            digest=self.trace.digest(),
            answers=dict(self.answers),
            struck=dict(self.struck),
        )

    def _run(self) -> None:
        self._start("names")
        self._start("a")
        self._start("b")
        self._pass(WARM_UP)
        self._load.start()
        begun = self.clock.seconds()
        for fault in self.setup.faults:
            self._pass_until(begun + fault.at)
            self._begin(fault)
        self._pass_until(begun + self.setup.seconds)
        self._heal()
        self._settle()
        self._load.stop()
        self._pass(TIMEOUT + 1)
        probe = self._load.send(f"{ADDRESSES[self.master]}:{BROKER_PORT}")
        self._pass(TIMEOUT + 1)
        self._check_whole(probe)
        self._stop_all()

    def _settle(self) -> None:
        self._load.pause = SETTLE_PAUSE
        limit = self.clock.seconds() + SETTLE
        self._pass(1)
        self._restart_stopped()
        self._pass(9)
        while self.clock.seconds() < limit and not (self._linked() and self._equal_ends()):
            self._pass(1)

    def _pass(self, seconds: float) -> None:
        self._pass_until(self.clock.seconds() + seconds)

    def _pass_until(self, time: float) -> None:
        """Let time pass, under the operator's eyes."""
        while self.clock.seconds() < time:
            self.clock.run_until(min(time, self.clock.seconds() + LOOK))
            self._look()
            if self.violations:
                raise _Broken

    # -- the operator ----------------------------------------------------------------------------------------

    def _look(self) -> None:
        if not self._ending:
            self._restart()
            self._looks += 1
            if self._looks % COMPARE == 0:
                self._compare()

    def _restart(self) -> None:
        now = self.clock.seconds()
        for name, machine in self.machines.items():
            if machine.running or name in self._hands_off or name in self._refused:
                continue
            due = self._due.setdefault(name, now + self._down_for.pop(name, 1.0))
            if now >= due:
                del self._due[name]
                self._start(name)

    def _start(self, name: str) -> None:
        machine = self.machines[name]
        if not machine.powered:
            self.promises.power_lost(name)
            machine.power_on(self._kept.pop(name, 0.5))
        try:
            if not machine.boot(self._build(name)):
                return
        except DamagedLog as error:
            self.refusals.append(f"{name}: {error}")
            self._refused.add(name)
            return
        except (OSError, StoreError) as error:
            number = getattr(error, "errno", None)
            if number not in (errno.EIO, errno.ENOSPC, errno.EMFILE) and not isinstance(error, StoreError):
                raise
            self._start_error[name] = str(error)
            return
        if name in HOSTS:
            self._check_store(name)

    def _build(self, name: str) -> Callable[[Any], Any]:
        if name == "names":
            return partial(build_name_server, self.setup.name_server())
        return partial(build_broker, self.setup.broker(name, slave=name != self.master))

    def _store(self, name: str) -> LiveStore:
        machine = self.machines[name]
        return LiveStore(name, machine.service.parts.store, machine.disk)

    def _check_store(self, name: str) -> None:
        """All that a machine that has just started promised to have."""
        store = self._store(name)
        self._add(self.promises.check_all_stored(store))
        self._add(self.promises.check_readable(store, QUEUE_KEYS))

    def _add(self, violations: Iterable[Violation]) -> None:
        self.violations += list(violations)[:3]

    def _restart_stopped(self) -> None:
        """A store whose sync has failed says that the broker has to be restarted."""
        for name in HOSTS:
            machine = self.machines[name]
            if self._serves(name) and machine.service.parts.store.log.stopped_reason is not None:
                machine.kill()
                self._down_for[name] = 0.5

    def _serves(self, name: str) -> bool:
        """Does it run, and isn't about to stop? A look into a store that is closed would open it again."""
        return self.machines[name].running and name not in self._hands_off

    def _link(self) -> Any:
        """The slave's HA client, if both brokers serve."""
        if not all(map(self._serves, HOSTS)):
            return None
        return getattr(self.machines[self.slave].service.services, "ha_client", None)

    def _linked(self) -> bool:
        client = self._link()
        if client is None or client.state is not SlaveState.TRANSFER:
            return False
        link = client._link
        if link is None or not link.progressed:
            return False
        # A slave doesn't hear of a power failure: its end may be one of a link with the process before.
        ends = self.machines[self.master].service.parts.ha._links
        return any(end.transport.getPeer() == link.transport.getHost() for end in ends)

    def _equal_ends(self) -> bool:
        return self._store("a").log_range()[1] == self._store("b").log_range()[1]

    def _compare(self) -> None:
        if self._link() is None:
            return
        if self._linked():
            self._out_since = None
            violation = self.promises.check_equal(self._store(self.master), self._store(self.slave))
            if violation is not None:
                self.violations.append(violation)
        elif self._out_since is None:
            self._out_since = self.clock.seconds()
        elif self.clock.seconds() - self._out_since > STUCK and not self._fits():
            self._empty(self.slave)

    def _fits(self) -> bool:
        """Is the slave's log a beginning of its master's?"""
        master, slave = self._store(self.master), self._store(self.slave)
        begin, end = slave.log_range()
        start, master_end = master.log_range()
        if end > master_end or end < start:
            return begin == end
        return self.promises.check_equal(master, slave) is None

    def _empty(self, name: str) -> None:
        """As the documents say: stop it, empty its store, start it."""
        self.emptied += 1
        self._out_since = None
        machine = self.machines[name]
        machine.kill()
        machine.disk = SimDisk(self.clock.seconds, self.trace)
        self.promises.emptied(name)
        self._down_for[name] = 0.5

    # -- faults ----------------------------------------------------------------------------------------------

    def _begin(self, fault: Fault) -> None:
        self.trace.note(f"fault {fault}")
        self.struck[fault.kind] += 1
        begin = getattr(self, f"_begin_{fault.kind}", None)
        if begin is not None:
            begin(fault)
            return
        self._active.append(fault)
        self._apply()
        self.clock.callLater(fault.lasts, self._mend, fault)

    def _mend(self, fault: Fault) -> None:
        if fault in self._active:
            self._active.remove(fault)
            self._apply()

    def _apply(self) -> None:
        """Let what is active be what is broken."""
        faults = self.faults
        faults.heal()
        for name in HOSTS:
            disk = self.machines[name].disk
            disk.full = disk.no_descriptors = False
            self.machines[name].work_delay = 0.002
        for fault in self._active:
            match fault.kind:
                case "cut":
                    faults.cuts.add((ADDRESSES[fault.host], ADDRESSES[fault.other]))
                case "partition":
                    one, other = ADDRESSES[fault.host], ADDRESSES[fault.other]
                    faults.cuts |= {(one, other), (other, one)}
                case "slow":
                    faults.delay = max(faults.delay, fault.amount)
                case "pieces":
                    faults.piece = min(faults.piece, fault.count)
                case "full":
                    self.machines[fault.host].disk.full = True
                case "descriptors":
                    self.machines[fault.host].disk.no_descriptors = True
                case "slowdisk":
                    self.machines[fault.host].work_delay = fault.amount
                case _:
                    raise AssertionError(fault.kind)

    def _begin_storm(self, fault: Fault) -> None:
        """All connections break, again and again."""
        ends = self.clock.seconds() + fault.lasts

        def blow() -> None:
            self.network.cut()
            if self.clock.seconds() + fault.amount < ends:
                self.clock.callLater(fault.amount, blow)

        blow()

    def _begin_kill(self, fault: Fault) -> None:
        machine = self.machines[fault.host]
        if machine.running:
            self._down_for[fault.host] = fault.lasts
            machine.kill()

    def _begin_die(self, fault: Fault) -> None:
        machine = self.machines[fault.host]
        if machine.running:
            self._down_for[fault.host] = fault.lasts
            self._kept[fault.host] = fault.amount
            machine.disk.strike(Strike(after=fault.count, torn=fault.amount))

    def _begin_power(self, fault: Fault) -> None:
        for name in HOSTS if fault.host == "all" else (fault.host,):
            self._power_off(name, fault)

    def _power_off(self, name: str, fault: Fault) -> None:
        machine = self.machines[name]
        if machine.powered and name not in self._hands_off:
            self._down_for[name] = fault.lasts
            self._kept[name] = fault.amount
            machine.power_off()

    def _begin_pause(self, fault: Fault) -> None:
        self.machines[fault.host].pause(fault.lasts)

    def _begin_io(self, fault: Fault) -> None:
        strike = Strike((fault.other,), after=fault.count, error=errno.EIO, torn=fault.amount)
        self.machines[fault.host].disk.strike(strike)

    def _begin_writeback(self, fault: Fault) -> None:
        machine = self.machines[fault.host]
        if machine.powered:
            machine.disk.write_back(self._random(f"writeback {fault.at}"), fault.amount)

    def _begin_stop(self, fault: Fault) -> None:
        if self.machines[fault.host].running and fault.host not in self._hands_off:
            self._stop(fault.host).addCallback(lambda _: self._down_for.__setitem__(fault.host, fault.lasts))

    def _stop(self, name: str) -> Deferred[None]:
        """Stop a machine's process in order."""
        machine = self.machines[name]
        process = machine.process
        self._hands_off.add(name)
        limit = self.clock.callLater(STOP_LIMIT, self._not_stopped, name, process)

        def stopped(_: object) -> None:
            if limit.active():
                limit.cancel()
            self._hands_off.discard(name)
            for left in machine.left_open if name in HOSTS else ():
                self.violations.append(Violation("leak", f"{name} has stopped, and has {left}"))

        return machine.stop().addCallback(stopped)

    def _not_stopped(self, name: str, process: object) -> None:
        self._hands_off.discard(name)
        if self.machines[name].process is process and process is not None:
            self.violations.append(Violation("stop", f"{name} hasn't stopped in {STOP_LIMIT:g} s"))

    def _begin_promote(self, fault: Fault) -> None:
        """The master ends; the operator starts the slave as master, and the old master, later, as its slave."""
        old, new = self.master, self.slave
        if not (self.machines[old].running and self.machines[new].running) or self._hands_off:
            return
        self._hands_off |= {old, new}
        if fault.count == 0:
            self.machines[old].kill()
        elif fault.count == 1:
            self._kept[old] = fault.amount
            self.machines[old].power_off()
        else:
            self._stop(old)
        self.clock.callLater(2.0, self._switch, old, new, fault.lasts)

    def _switch(self, old: str, new: str, lasts: float) -> None:
        if self.machines[new].running:
            self.machines[new].kill()
        if self.machines[old].running:  # its stop takes long
            self.machines[old].kill()
        self.master = new
        self._hands_off -= {old, new}
        self._due[new] = self.clock.seconds()
        self._due[old] = self.clock.seconds() + lasts

    def _heal(self) -> None:
        """Nothing is broken any more."""
        self._active.clear()
        self._apply()
        for machine in self.machines.values():
            machine.disk.strikes.clear()
            machine.pause(0.0)

    # -- what clients see ------------------------------------------------------------------------------------

    def _sent(self, sent: Sent, target: str) -> None:
        states = {name: (self.machines[name].losses, self.machines[name].disk) for name in HOSTS}
        self._sent_when[sent.number] = self.master, states
        self.promises.send(sent)

    def _answered(self, sent: Sent) -> None:
        master, states = self._sent_when.pop(sent.number)
        self.answers["none" if sent.code is None else str(sent.code)] += 1
        self.trace.note(f"answer {sent.number} {sent.code} {sent.place}")
        slave = HOSTS[1 - HOSTS.index(master)]
        lost = {name for name in HOSTS if self.machines[name].losses != states[name][0]}
        self.promises.answered(sent, master, slave, self.setup.terms, lost)
        for name in HOSTS:
            if self.machines[name].disk is not states[name][1]:
                sent.on.discard(name)
        for name in sorted(sent.on):
            if self._serves(name):
                violation = self.promises.check_stored(sent, self._store(name))
                if violation is not None:
                    self.violations.append(violation)

    # -- the end ---------------------------------------------------------------------------------------------

    def _check_whole(self, probe: Sent) -> None:
        """Everything has been well for long enough."""
        if self._refused:
            return
        for name in HOSTS:
            if not self.machines[name].running:
                self.violations.append(
                    Violation("whole", f"{name} doesn't run: {self._start_error.get(name)}")
                )
                return
        if self._load.waiting:
            self.violations.append(Violation("answers", f"{self._load.waiting} sends wait for ever"))
        if probe.code != ResponseCode.SUCCESS:
            self.violations.append(Violation("whole", f"a send to a group that is well is told {probe.code}"))
        state = self._link().status()
        if not self._linked():
            told = f"the slave is out: {state.state}; {state.problem}"
            self.violations.append(Violation("whole", told))
            return
        if not self._equal_ends():
            ends = [self._store(name).log_range()[1] for name in HOSTS]
            self.violations.append(Violation("whole", f"the logs end at {ends[0]} and {ends[1]}"))
        for name in HOSTS:
            self._check_store(name)
        if self.violations:
            raise _Broken

    def _stop_all(self) -> None:
        self._ending = True
        for name in (*HOSTS, "names"):
            if self.machines[name].running:
                self._stop(name)
        closing = self._client.close()
        self._pass(STOP_LIMIT / 3)
        for name in (*HOSTS, "names"):
            if self.machines[name].running:
                self.violations.append(Violation("stop", f"{name} hasn't stopped"))
        if not closing.called:
            self.violations.append(Violation("stop", "the client hasn't closed"))


QUEUE_KEYS = tuple((topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES))


class _Broken(Exception):
    """A promise was; the run ends."""
