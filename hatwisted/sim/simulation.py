"""A run: the group of a setup, its load and its faults, and the checks.

The operator looks every quarter of a second. After the faults everything is well again, and the group has `SETTLE`
seconds to be whole: linked, equal, and taking messages. Then all is stopped in order, and nothing may be left
behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from twisted.python.failure import Failure

from hatwisted.remoting.client import RemotingClient
from hatwisted.sim.bitrot import BitRot, flip_bit
from hatwisted.sim.deferredwatch import DeferredWatch
from hatwisted.sim.deliveries import early, rolled_back, undelivered
from hatwisted.sim.faultinjector import FaultInjector
from hatwisted.sim.faultplan import HOSTS
from hatwisted.sim.group import START, Group
from hatwisted.sim.history import Place, Sent, Violation
from hatwisted.sim.indexcheck import check_index
from hatwisted.sim.logwatch import LogWatch
from hatwisted.sim.messageload import TIMEOUT, Load, LoadEvents, LoadPattern
from hatwisted.sim.outcome import Outcome
from hatwisted.sim.promises import Promises
from hatwisted.sim.setup import ADDRESSES, DELAYS, MEMBERS, Setup
from hatwisted.sim.simdisk import SimDisk
from hatwisted.sim.simoperator import QUEUE_KEYS, STOP_LIMIT, Operator
from hatwisted.sim.tableload import TableLoad
from hatwisted.sim.tightlimits import TightLimits
from hatwisted.sim.transactionload import TransactionLoad
from hatwisted.sim.waitwatch import tightened
from hatwisted.wire.codes import ResponseCode

WARM_UP = 6.0
"""Seconds until the group is whole."""

BEFORE, AFTER = 0.4, 0.8
"""Seconds that producers are busy before and after something breaks, and after it's mended."""

SETTLE = 150.0
"""Most seconds to heal: some slow retries of a slave (30 s each), and a registration."""

STOPPED_LOOKS = (1.0, 4.0)
"""Seconds until the operator looks for stores that have stopped, and looks again: a slow disk may still be at work
on a sync that fails."""

SETTLE_PAUSE = 1.0
"""Seconds between two sends meanwhile, on average."""

DRAIN = 240.0
"""Most seconds for consumers to reach the end of everything: a dead member's queues are given to others once
its broker misses its heartbeats (120 s), and a queue's lock ends by itself (60 s)."""

TELLING = 12.0
"""Seconds until brokers have told each other how far groups have come: a commit, and a round of the slave."""

DELIVERY = 40.0
"""Seconds for what brokers put by themselves, at most: a failure makes them pause for some, and rounds of asking
producers are seconds apart."""

LOSES = frozenset(("power", "die", "flicker", "failing", "promote"))
"""Faults by which a master may end up without what it had."""

LATE_SENDS = 3

HEALTHY_LATENCY = 0.003
"""Most seconds on the way, while all is well."""

LOOK = 0.25
"""Seconds between two looks of the operator."""


class Simulation:
    """One run of `setup`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.group = Group(setup)
        self.clock = self.group.clock
        self.promises = Promises()
        self.operator = Operator(self.group, self.promises)
        self.violations = self.operator.violations
        self.injector = FaultInjector(self.group, self.operator)
        self.answers: Counter[str] = Counter()
        self._ending = self._blind = False
        self.looked: Callable[[], None] = lambda: None
        """Called after each look of the operator."""
        self._sent_when: dict[int, tuple[str, int, dict[str, tuple[int, SimDisk]]]] = {}
        """Who was master when a message was sent, how many changes of configuration there had been, and how often
        the power had failed, on which disk."""
        self._client = RemotingClient(self.group.network.host(ADDRESSES["clients"]), self.clock)
        events = LoadEvents(self._sent, self._answered)
        self._load = Load(
            self._client,
            self.clock,
            self.group.random("load"),
            LoadPattern(setup.pause, setup.sizes, setup.delayed, DELAYS),
            lambda: self.group.master_address,
            events,
        )
        self._watch = LogWatch()
        self.deferreds = DeferredWatch()
        self._limits = TightLimits(self.violations)
        self._deaths = 0
        self._transactions = TransactionLoad(
            self.group.network.host(ADDRESSES["clients"]),
            self.clock,
            self.group.random("transactions"),
            lambda: self.group.master_address,
            events,
            self._place_of,
        )
        self._tables = TableLoad(self._client, self.group, self.operator.tables, self.promises, events)

    # -- the run ---------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """To the end, or to the first violation."""
        watch = self._watch
        with watch.watching(), self.deferreds.watching(), tightened(self.setup.tight):
            try:
                self._run()
            except _Broken:
                pass
            except Exception:
                self.violations.append(Violation("exception", Failure().getTraceback()))
            self._limits.end()
            self.violations[:0] = self.deferreds.violations
            self.violations += watch.violations
        self.group.mute()
        return Outcome(
            seed=self.setup.seed,
            violations=[str(violation) for violation in self.violations],
            refusals=self.operator.refusals,
            emptied=self.operator.emptied,
            seconds=self.clock.seconds() - START,
            turns=self.clock.turns,
            digest=self.group.trace.digest(),
            answers=dict(self.answers),
            struck=dict(self.injector.struck),
            reached=self._limits.reached,
        )

    def _run(self) -> None:
        if self.setup.tight:
            self._limits.tighten()
        for name in ("names", *HOSTS):
            self.operator.start(name)
        self._pass(WARM_UP)
        self._load.start()
        if self.setup.transactions:
            self._transactions.start()
        if self.setup.tables:
            self._tables.start()
        self._load.hurry(AFTER)
        begun = self.clock.seconds()
        for fault in self.setup.faults:
            self.clock.callLater(max(0.0, fault.at - BEFORE), self._load.hurry, BEFORE + AFTER)
            if fault.lasts > AFTER:
                self.clock.callLater(fault.at + fault.lasts, self._load.hurry, AFTER)
        for fault in self.setup.faults:
            self._pass_until(begun + fault.at)
            self.injector.begin(fault)
        self._pass_until(begun + self.setup.seconds)
        self.injector.heal()
        self._limits.relax()
        self._settle()
        if not self.setup.read:
            self._check_rot()
        self._load.stop()
        self._transactions.stop()
        self._tables.stop()
        self._pass(TIMEOUT + 1)
        self._check_whole(self._probed())
        self._check_consumed()
        if self.setup.read:
            self._check_rot()
        self._stop_all()

    def _settle(self) -> None:
        self._load.pause = SETTLE_PAUSE
        limit = self.clock.seconds() + SETTLE
        for pause in STOPPED_LOOKS:
            self._pass(pause)
            self.operator.restart_stopped()
        self._pass(5)
        while self.clock.seconds() < limit and not (self.group.linked() and self.group.equal_ends()):
            self._pass(1)

    def _pass(self, seconds: float) -> None:
        self._pass_until(self.clock.seconds() + seconds)

    def _pass_until(self, time: float) -> None:
        """Let time pass, under the operator's eyes."""
        while self.clock.now < time:
            self.clock.run_until(min(time, self.clock.now + LOOK))
            deaths = sum(machine.deaths for machine in self.group.machines.values())
            if deaths != self._deaths:
                self._deaths = deaths
                self.deferreds.forget()
            if not (self._ending or self._blind):
                self.operator.look()
            self.looked()
            if self.violations:
                raise _Broken

    # -- what clients see ------------------------------------------------------------------------------------

    def _sent(self, sent: Sent, target: str) -> None:
        machines = self.group.machines
        states = {name: (machines[name].losses, machines[name].disk) for name in HOSTS}
        self._sent_when[sent.number] = self.group.master, len(self.group.former_terms), states
        self.promises.send(sent)

    def _place_of(self, sent: Sent, half_at: int) -> Place | None:
        """Where the broker that it was sent to has it, if it was put there lately: the last copy of the half at
        this log offset. A half that is parked again has copies of its own."""
        master, _, _ = self._sent_when[sent.number]
        if not self.group.serves(master):
            return None
        newest = self.group.store(master).newest(sent.topic, sent.queue_id)
        copies = [seen for seen in newest if seen is not None and seen.half_at == half_at]
        return next((seen.place for seen in reversed(copies) if seen.body == sent.body), None)

    def _answered(self, sent: Sent) -> None:
        if self._ending:  # by brokers that stop
            return
        machines = self.group.machines
        master, changes, states = self._sent_when.pop(sent.number)
        self.answers["none" if sent.code is None else str(sent.code)] += 1
        self.group.trace.note(f"answer {sent.number} {sent.code} {sent.place}")
        if sent.code == ResponseCode.SUCCESS and not self.setup.takes_puts:
            told = (
                f"message {sent.number} was told SUCCESS: {self.setup.copies} copies in {len(HOSTS)} brokers"
            )
            self.violations.append(Violation("copies", told))
        slave = HOSTS[1 - HOSTS.index(master)]
        lost = {name for name in HOSTS if machines[name].losses != states[name][0]}
        self.promises.answered(sent, master, slave, self.group.terms_since(changes, master, slave), lost)
        for name in HOSTS:
            if machines[name].disk is not states[name][1]:
                sent.on.discard(name)
        for name in () if self._blind else sorted(sent.on):  # a bit may be flipped in it
            if self.group.serves(name) and not self.operator.decay.touches(name, sent):
                violation = self.promises.check_stored(sent, self.group.store(name))
                if violation is not None:
                    self.violations.append(violation)

    # -- the end ---------------------------------------------------------------------------------------------

    def _probed(self) -> Sent:
        """A send, and what came of it. A master that lost its power couldn't say so: producers who have sent
        nothing since learn it from this one, which nobody has promised to answer, and the next one counts."""
        unaware = self.group.network.half_open(ADDRESSES["clients"], ADDRESSES[self.group.master])
        probe = self._load.send(self.group.master_address)
        self._pass(TIMEOUT + 1)
        if unaware and probe.code is None:
            probe = self._load.send(self.group.master_address)
            self._pass(TIMEOUT + 1)
        return probe

    def _check_whole(self, probe: Sent) -> None:
        """Everything has been well for long enough."""
        group, operator = self.group, self.operator
        if operator.refused:
            return
        for name in HOSTS:
            if not group.machines[name].running:
                told = f"{name} doesn't run: {operator.start_error.get(name)}"
                self.violations.append(Violation("whole", told))
                return
        waiting = self._load.waiting + self._transactions.waiting
        if waiting:
            self.violations.append(Violation("answers", f"{waiting} sends wait for ever"))
        if probe.code != ResponseCode.SUCCESS and self.setup.takes_puts:
            self.violations.append(
                Violation("whole", f"a send to a group that is well is answered {probe.code}")
            )
        state = group.link().status()
        if not group.linked():
            told = f"the slave is out: {state.state}; {state.problem}"
            self.violations.append(Violation("whole", told))
            return
        if not group.equal_ends():
            self._pass(LOOK)  # what a broker has just put by itself is on its way
        if not group.equal_ends():
            ends = [group.store(name).log_range()[1] for name in HOSTS]
            self.violations.append(Violation("whole", f"the logs end at {ends[0]} and {ends[1]}"))
        for name in HOSTS:
            operator.check_store(name)
            self.violations += list(check_index(self.promises.sent.values(), group.store(name)))[:3]
        self._check_delivered()
        operator.tables.check_alike(lambda: self._pass(LOOK))
        operator.waits.check_idle()
        if self.violations:
            raise _Broken

    def _check_delivered(self) -> None:
        """What was to come later has come by now."""
        store, sent = self.group.store(self.group.master), list(self.promises.sent.values())
        limit = self.clock.seconds() + DELIVERY
        while self.clock.seconds() < limit and any(undelivered(sent, store)):
            self._pass(2)
        self.violations += list(undelivered(sent, store))[:3]
        self.violations += list(rolled_back(sent, store))[:3]
        struck = self.injector.struck
        if not struck["leap"] and not (self.setup.drift and struck["promote"]):
            self.violations += list(early(sent, store))[:3]

    def _check_consumed(self) -> None:
        """Consumers have had time to read all there is."""
        if not self.group.consumptions or not self.group.serves(self.group.master):
            return
        limit = self.clock.seconds() + DRAIN
        while self.clock.seconds() < limit and self._unconsumed():
            self._pass(2)
        self.violations += self._unconsumed()[:3]
        self._pass(TELLING)
        # Members that a master doesn't believe (`staleoffsets`) read again what they had been given.
        progress = self.operator.progress
        while self.clock.seconds() < limit and progress.unlike():
            self._pass(2)
        self.violations += progress.unlike()[:3]
        store = self.group.store(self.group.master)
        for consumption in self.group.consumptions.values():
            self.violations += list(consumption.out_of_order(store, QUEUE_KEYS))[:3]
        if self.violations:
            raise _Broken

    def _unconsumed(self) -> list[Violation]:
        """What groups were never given, or failed on and weren't given again, so far."""
        store = self.group.store(self.group.master)
        kept = not self.operator.emptied and LOSES.isdisjoint(self.injector.struck)
        unconsumed: list[Violation] = []
        for consumption in self.group.consumptions.values():
            unconsumed += consumption.missing(store, QUEUE_KEYS)
            if kept:
                unconsumed += consumption.forgotten(store)
        return unconsumed

    def _check_rot(self) -> None:
        """A bit that changes at rest is noticed, and repaired; nothing else is taken for one."""
        group, told = self.group, self._watch.differences
        if told:
            what = f"the slave says that it differs in {told[0]}, but no bit has changed"
            self.violations.append(Violation("rot", what))
        elif self.setup.audited and group.linked():
            self._blind = True  # an operator who compares logs would see it, too
            flip = flip_bit(group, group.random("rot"))
            rot = None if flip is None else BitRot(group, self._client, flip, told)
            while rot is not None and not rot.over:
                self._pass(5)
                violation = rot.look()
                if violation is not None:
                    self.violations.append(violation)
                    break
            told.clear()
            self._blind = False
        if self.violations:
            raise _Broken

    def _stop_all(self) -> None:
        """Consumers first, as an operator would."""
        self._ending = True
        machines = self.group.machines
        members = [name for name in machines if name in MEMBERS]
        self._stop_some(members)
        self._send_late()
        closing = [self._client.close(), self._transactions.close()]
        self._stop_some((*HOSTS, "names"))
        for name in machines:
            if machines[name].running:
                self.violations.append(Violation("stop", f"{name} hasn't stopped"))
        if not all(each.called for each in closing):
            self.violations.append(Violation("stop", "a client hasn't closed"))
        self.deferreds.check_fired()

    def _send_late(self) -> None:
        """Some sends are under way when the brokers stop, and the slave isn't heard any more."""
        group = self.group
        group.faults.cuts.add((ADDRESSES[group.slave], ADDRESSES[group.master]))
        for _ in range(LATE_SENDS):
            self._load.send(self.group.master_address)
        self.clock.run_until(self.clock.seconds() + 2 * HEALTHY_LATENCY)

    def _stop_some(self, names: Sequence[str]) -> None:
        machines = self.group.machines
        for name in names:
            if machines[name].running:
                self.operator.stop(name)
        limit = self.clock.seconds() + STOP_LIMIT / 3
        while self.clock.seconds() < limit and any(machines[name].running for name in names):
            self._pass(1)


class _Broken(Exception):
    """A promise was; the run ends."""
