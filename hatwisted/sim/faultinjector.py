"""Lets a plan's faults happen, and mends them in time."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall

from hatwisted.sim.diskstrike import Strike
from hatwisted.sim.faultplan import HOSTS, Fault
from hatwisted.sim.group import Group
from hatwisted.sim.history import Violation
from hatwisted.sim.setup import ADDRESSES, HA_PORT
from hatwisted.sim.simoperator import Operator


class FaultInjector:
    """Breaks what belongs to `group`; `operator` learns what it will have to start again."""

    def __init__(self, group: Group, operator: Operator) -> None:
        self.struck: Counter[str] = Counter()
        """Faults that took effect, by kind."""
        operator.tables.clocks_leapt = lambda: self.struck["leap"] > 0
        self._group = group
        self._operator = operator
        self._active: list[Fault] = []
        self._to_come: list[IDelayedCall] = []
        """What faults that have begun still have in store."""

    def begin(self, fault: Fault) -> None:
        """It happens now."""
        self._group.trace.note(f"fault {fault}")
        self.struck[fault.kind] += 1
        begin = getattr(self, f"_begin_{fault.kind}", None)
        if begin is not None:
            begin(fault)
            return
        self._active.append(fault)
        self._apply()
        self._group.clock.callLater(fault.lasts, self._mend, fault)

    def heal(self) -> None:
        """Nothing is broken any more."""
        self._operator.restore()
        self._active.clear()
        self._apply()
        for call in self._to_come:
            if call.active():
                call.cancel()
        for machine in self._group.machines.values():
            machine.disk.strikes.clear()
            machine.pause(0.0)
            machine.ahead = 0.0
        for end in self._group.network.transports:
            end.stalled_until = 0.0

    def _later(self, delay: float, function: Callable[..., object], *args: object) -> None:
        """Call then, unless all is mended by that time."""
        self._to_come.append(self._group.clock.callLater(delay, function, *args))

    def _mend(self, fault: Fault) -> None:
        if fault in self._active:
            self._active.remove(fault)
            self._apply()

    def _apply(self) -> None:
        """Let what is active be what is broken."""
        faults, machines = self._group.faults, self._group.machines
        faults.heal()
        for name in HOSTS:
            disk = machines[name].disk
            disk.full = disk.no_descriptors = False
            machines[name].work_delay = 0.002
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
                    machines[fault.host].disk.full = True
                case "descriptors":
                    machines[fault.host].disk.no_descriptors = True
                case "slowdisk":
                    machines[fault.host].work_delay = fault.amount
                case _:
                    raise AssertionError(fault.kind)

    # -- faults that happen once -----------------------------------------------------------------------------

    def _begin_storm(self, fault: Fault) -> None:
        """All connections break, again and again."""
        clock = self._group.clock
        ends = clock.seconds() + fault.lasts

        def blow() -> None:
            self._group.network.cut()
            if clock.seconds() + fault.amount < ends:
                self._later(fault.amount, blow)

        blow()

    def _begin_stall(self, fault: Fault) -> None:
        """What a broker writes to its HA links gets stuck; other connections, and new links, are well."""
        until = self._group.clock.seconds() + fault.lasts
        here = ADDRESSES[fault.host], HA_PORT
        for end in self._group.network.transports:
            if (end.getHost().host, end.getHost().port) == here:
                end.stalled_until = until

    def _begin_kill(self, fault: Fault) -> None:
        machine = self._group.machines[fault.host]
        if machine.running:
            self._operator.down(fault.host, fault.lasts)
            machine.kill()

    def _begin_conf(self, fault: Fault) -> None:
        """The process ends, and is started again with another flush mode, role or acknowledgement."""
        group = self._group
        if group.serves(fault.host):
            group.configure(fault.host, group.setup.other_terms(fault.count))
            self._begin_kill(fault)

    def _begin_die(self, fault: Fault) -> None:
        machine = self._group.machines[fault.host]
        if machine.running:
            self._operator.down(fault.host, fault.lasts, fault.amount)
            machine.disk.strike(Strike(after=fault.count, torn=fault.amount))

    def _begin_power(self, fault: Fault) -> None:
        for name in HOSTS if fault.host == "all" else (fault.host,):
            self._power_off(name, fault.lasts, fault.amount)

    def _begin_pause(self, fault: Fault) -> None:
        self._group.machines[fault.host].pause(fault.lasts)

    def _begin_io(self, fault: Fault) -> None:
        strike = Strike((fault.other,), after=fault.count, error=errno.EIO, torn=fault.amount)
        self._group.machines[fault.host].disk.strike(strike)

    def _begin_failing(self, fault: Fault) -> None:
        """The disk fails the log once; then the process ends, or, after a failed sync, the power fails."""
        machine = self._group.machines[fault.host]
        strike = Strike((fault.other,), path="commitlog", error=errno.EIO, torn=fault.amount)
        machine.disk.strike(strike)

        def end() -> None:
            if strike in machine.disk.strikes:
                machine.disk.strikes.remove(strike)
            if fault.other == "datasync":
                self._power_off(fault.host, 0.5, 0.0)
            elif machine.running:
                self._operator.down(fault.host, 0.5)
                machine.kill()

        self._later(fault.lasts, end)

    def _begin_flicker(self, fault: Fault) -> None:
        """The power fails for a moment, again and again: links to peers who notice nothing pile up."""
        for number in range(fault.count):
            self._later(number * fault.lasts, self._power_off, fault.host, 0.0, fault.amount)

    def _power_off(self, name: str, lasts: float, kept: float) -> None:
        machine = self._group.machines[name]
        if machine.powered and name not in self._group.hands_off:
            self._operator.down(name, lasts, kept)
            machine.power_off()

    def _begin_leap(self, fault: Fault) -> None:
        """The clock is wrong for a while; whoever runs then keeps its time, which never goes back."""
        machine = self._group.machines[fault.host]
        machine.leap(fault.amount)

        def right_again() -> None:
            machine.ahead -= fault.amount

        self._later(fault.lasts, right_again)

    def _begin_twin(self, fault: Fault) -> None:
        """An operator starts a second broker, with a root of its own, on the log of one that runs."""
        machine = self._group.machines[fault.host]
        if self._group.serves(fault.host) and machine.run_twice(self._group.build_twin(fault.host)):
            told = f"a second broker runs on the log of {fault.host}"
            self._operator.violations.append(Violation("locked", told))

    def _begin_writeback(self, fault: Fault) -> None:
        machine = self._group.machines[fault.host]
        if machine.powered:
            machine.disk.write_back(self._group.random(f"writeback {fault.at}"), fault.amount)

    def _begin_rot(self, fault: Fault) -> None:
        if not self._operator.decay.begin(fault):
            self.struck -= Counter((fault.kind,))

    def _begin_stop(self, fault: Fault) -> None:
        name = fault.host
        if self._group.machines[name].running and name not in self._group.hands_off:
            self._operator.stop(name).addCallback(lambda _: self._operator.down(name, fault.lasts))

    def _begin_promote(self, fault: Fault) -> None:
        self._operator.promote(fault)
