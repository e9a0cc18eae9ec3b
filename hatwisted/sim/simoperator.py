"""Who looks after a group: starts again what has ended, promotes the slave, empties what can't be joined.

Machines that are down are started when their fault says so, with the power back if it was gone; a store that
can't be opened for want of room or descriptors is tried again. A slave that stays out because its log isn't a
prefix of its master's is emptied, as the documents tell an operator to. Everything that starts or is linked
is checked against the promises.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from twisted.internet.defer import Deferred

from hatwisted.broker.node.slaverole import SlaveRole
from hatwisted.sim.decay import Decay
from hatwisted.sim.faultplan import HOSTS, Fault
from hatwisted.sim.group import Group
from hatwisted.sim.history import Violation
from hatwisted.sim.machine import ProcessClock
from hatwisted.sim.messageload import QUEUES, TOPICS
from hatwisted.sim.progresspromises import ProgressPromises
from hatwisted.sim.promises import Promises
from hatwisted.sim.setup import DELAYS
from hatwisted.sim.simclock import SimCall
from hatwisted.sim.tablepromises import TablePromises
from hatwisted.sim.waitwatch import WaitWatch
from hatwisted.store.errors import DamagedLog, StoreError
from hatwisted.wire.layout import HALF_TOPIC, SCHEDULE_TOPIC

COMPARE = 8
"""Looks between two comparisons of the logs."""

STUCK = 40.0
"""Seconds that a slave may stay out before the operator looks at its log."""

STOP_LIMIT = 90.0
"""Seconds that a stop in order may take."""

QUEUE_KEYS = tuple((topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES))


class Operator:
    """Looks after `group`; what it sees must keep `promises`."""

    def __init__(self, group: Group, promises: Promises) -> None:
        self.violations: list[Violation] = []
        self.refusals: list[str] = []
        """Starts that a store refused because of damage."""
        self.refused: set[str] = set()
        """Machines that stay out for it."""
        self.emptied = 0
        """How many slaves were."""
        self.start_error: dict[str, str] = {}
        """Why a machine couldn't be started the last time."""
        self.tables = TablePromises(group, self.violations)
        self.progress = ProgressPromises(group, self.violations)
        self.waits = WaitWatch(group, self.violations)
        self.decay = Decay(group, promises.sent)
        promises.wrong = self.decay
        self._group = group
        delayed = [(SCHEDULE_TOPIC, level) for level in range(len(DELAYS))] if group.setup.delayed else []
        halves = [(HALF_TOPIC, 0)] if group.setup.transactions else []
        self._queues = (*QUEUE_KEYS, *delayed, *halves)
        """All that hold what producers have sent."""
        self._promises = promises
        self._due: dict[str, float] = {}
        self._down_for: dict[str, float] = {}
        self._stopping: dict[str, tuple[ProcessClock, SimCall]] = {}
        self._kept: dict[str, float] = {}
        self._rebuilds: dict[str, set[str]] = {}
        """By machine: folders that are made anew at its next start."""
        self._out_since: float | None = None
        self._looks = 0

    # -- what comes by itself --------------------------------------------------------------------------------

    def look(self) -> None:
        """What there is to do, several times a second."""
        self._restart()
        self._looks += 1
        if self._looks % COMPARE == 0:
            self._compare()

    def _restart(self) -> None:
        now = self._group.clock.seconds()
        for name, (process, _) in list(self._stopping.items()):
            if self._group.machines[name].process is not process:  # it was killed before it had stopped
                self._stopped(name, process)
        for name, machine in self._group.machines.items():
            if machine.process is not None or name in self._group.hands_off or name in self.refused:
                continue
            due = self._due.setdefault(name, now + self._down_for.pop(name, 1.0))
            if now >= due:
                del self._due[name]
                self.start(name)

    def start(self, name: str) -> None:
        """Switch a machine on, if it's off, and start what runs there."""
        machine = self._group.machines[name]
        if not machine.powered:
            self._promises.power_lost(name)
            machine.power_on(self._kept.pop(name, 0.5))
        for folder in sorted(self._rebuilds.pop(name, ())):
            machine.disk.remove_all(folder)
        try:
            if not machine.boot(self._group.build(name)):
                return
        except DamagedLog as error:
            if self.decay.restore((name,)):
                self.decay.refused += 1
                return
            self.refusals.append(f"{name}: {error}")
            self.refused.add(name)
            return
        except (OSError, StoreError) as error:
            number = getattr(error, "errno", None)
            if number not in (errno.EIO, errno.ENOSPC, errno.EMFILE) and not isinstance(error, StoreError):
                raise
            self.start_error[name] = str(error)
            return
        if name in HOSTS:
            self.check_store(name)
        if name == self._group.master:
            self.progress.began(name)

    def check_store(self, name: str) -> None:
        """Does a machine have all that it promised to have?"""
        store = self._group.store(name)
        self._add(self._promises.check_all_stored(store))
        remade = sorted({sent.topic for sent in self._promises.sent.values()}.difference(TOPICS))
        queues = [(topic, queue_id) for topic in remade for queue_id in range(QUEUES)]
        self._add(self._promises.check_readable(store, (*self._queues, *queues)))
        self.tables.check(name)

    def _add(self, violations: Iterable[Violation]) -> None:
        self.violations += list(violations)[:3]

    def _compare(self) -> None:
        group = self._group
        self.tables.look()
        self.progress.look()
        self.waits.look()
        if group.link() is None:
            return
        if group.linked():
            self._out_since = None
            violation = self._check_equal()
            if violation is not None:
                self.violations.append(violation)
        elif self._out_since is None:
            self._out_since = group.clock.seconds()
        elif group.clock.seconds() - self._out_since > STUCK and not self._fits():
            self._empty(group.slave)

    def _fits(self) -> bool:
        """Is the slave's log a prefix of its master's?"""
        group = self._group
        master, slave = group.store(group.master), group.store(group.slave)
        begin, end = slave.log_range()
        start, master_end = master.log_range()
        if end > master_end or end < start:
            return begin == end
        return self._check_equal() is None

    def _check_equal(self) -> Violation | None:
        """Do the logs say the same, but for what has changed at rest?"""
        one, other = (self._group.store(name) for name in (self._group.master, self._group.slave))
        violation = self._promises.check_equal(one, other)
        if violation is None or not self.decay.in_log:
            return violation
        (a, b), (c, d) = one.log_range(), other.log_range()
        start, end = max(a, c), min(b, d)
        same = self.decay.same(one.log_bytes(start, end), other.log_bytes(start, end), start)
        return None if same else violation

    def _empty(self, name: str) -> None:
        """As the documents say: stop it, empty its store, start it."""
        self.emptied += 1
        self._out_since = None
        machine = self._group.machines[name]
        machine.kill()
        machine.empty_disk()
        self._promises.emptied(name)
        self.tables.emptied(name)
        self._down_for[name] = 0.5

    # -- what a fault or the end of a run asks for -----------------------------------------------------------

    def restore(self) -> None:
        """Put right what has changed at rest; folders that are removed are made anew at the next start."""
        for name, folders in self.decay.restore_all().items():
            self._rebuilds[name] = folders
            if self._group.serves(name):
                self._group.machines[name].kill()
                self._down_for[name] = 0.5

    def restart_stopped(self) -> None:
        """A store whose sync has failed says that the broker has to be restarted."""
        for name in HOSTS:
            machine = self._group.machines[name]
            if not self._group.serves(name):
                continue
            reason = machine.service.parts.store.log.stopped_reason
            if reason is None:
                continue
            if os.strerror(errno.EMFILE) in reason:
                told = f"{name} takes no put any more, for want of a descriptor: {reason}"
                self.violations.append(Violation("stopped", told))
            machine.kill()
            self._down_for[name] = 0.5

    def down(self, name: str, lasts: float, kept: float | None = None) -> None:
        """A machine will be down.

        - name: its
        - lasts: seconds
        - kept: what its disk then has of the unsynced, if its power fails
        """
        self._down_for[name] = lasts
        if kept is not None:
            self._kept[name] = kept

    def stop(self, name: str) -> Deferred[None]:
        """Stop a machine's process in order."""
        group = self._group
        machine = group.machines[name]
        process = machine.process
        group.hands_off.add(name)
        assert process is not None
        self._stopping[name] = process, group.clock.callLater(STOP_LIMIT, self._not_stopped, name, process)

        def stopped(_: object) -> None:
            self._stopped(name, process)
            for left in machine.left_open:
                self.violations.append(Violation("leak", f"{name} has stopped, and has {left}"))

        return machine.stop().addCallback(stopped)

    def _stopped(self, name: str, process: ProcessClock) -> None:
        if name in self._stopping and self._stopping[name][0] is process:
            _, limit = self._stopping.pop(name)
            if limit.active():
                limit.cancel()
            self._group.hands_off.discard(name)

    def _not_stopped(self, name: str, process: ProcessClock) -> None:
        self._stopped(name, process)
        if self._group.machines[name].process is process:
            self.violations.append(Violation("stop", f"{name} hasn't stopped in {STOP_LIMIT:g} s"))

    def promote(self, fault: Fault) -> None:
        """The master ends; the slave is started as master, and the old master, later, as its slave."""
        group = self._group
        old, new = group.master, group.slave
        if not (group.machines[old].running and group.machines[new].running) or group.hands_off:
            return
        group.hands_off |= {old, new}
        if fault.count == 0:
            group.machines[old].kill()
        elif fault.count == 1:
            self._kept[old] = fault.amount
            group.machines[old].power_off()
        else:
            self.stop(old)
        group.clock.callLater(2.0, self._switch, old, new, fault.lasts)

    def _switch(self, old: str, new: str, lasts: float) -> None:
        group = self._group
        if group.machines[new].running:
            self._look_at_numbers(old, new)
            group.machines[new].kill()
        if group.machines[old].running:  # its stop takes long
            group.machines[old].kill()
        group.master = new
        self.tables.promoted(new)
        self._promises.promoted()
        group.hands_off -= {old, new}
        self._due[new] = group.clock.seconds()
        self._due[old] = group.clock.seconds() + lasts

    def _look_at_numbers(self, old: str, new: str) -> None:
        """Promoted within seconds of its first link, a slave may not have been told queues' numbers yet."""
        services = self._group.machines[new].service.services
        if isinstance(services, SlaveRole) and services._numbers._loop.running:
            self._promises.renumbered(old, self._group.store(new).log_range()[0])
