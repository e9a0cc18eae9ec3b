"""A master and its slave as processes, struck again and again under load, and judged after each time.

The checker is the simulation's (`hatwisted.sim.promises`): what producers were answered is held against what both
brokers serve and what lies in their files. A series is one pair of stores and what happens to it, drawn from a
seed: its settings and its strikes. Moments are the operating system's: a seed repeats the plan alone.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hatwisted.sim.history import StoreView, Violation
from hatwisted.sim.promises import Promises, Terms
from testbed.brokergroup import QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import ServerProcess, Setting
from tests.support.judgedproducer import JudgedProducer, Judges
from tests.support.producer import QUEUES, TOPICS
from tests.support.runningstore import RunningStore

MASTER, SLAVE = "master", "slave"
PACE = 200
"""Requests a second: each round reads all that the rounds before it have put."""
SOME = 20
"""Acknowledged messages before a strike, and after it."""
MOMENTS = 0.25
"""Seconds within which a strike comes once the load runs."""
PAUSES = (0.1, 1.5)
"""Seconds that a stopped process stands still; the longer ones are longer than a put waits for its slave."""
EARLY = (0.05, 0.9)
"""Seconds after its start at which a broker is killed again: from before its recovery to a while after it."""
Strike = Callable[[], None]
QUEUE_KEYS = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]


class CrashSeries:
    """One pair under kill -9 and SIGSTOP; use it as a context manager, which starts it.

    - folder: for stores, settings and output
    - seed: draws settings and strikes
    """

    group_class = BrokerGroup
    producer_class = JudgedProducer

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.terms = Terms(
            sync_slaves=True,
            sync_flush=self.random.random() < 0.5,
            durable_acks=self.random.random() < 0.5,
        )
        self.promises = Promises()
        self.struck: Counter[str] = Counter()
        """Rounds by kind."""
        self.codes: Counter[int] = Counter()
        """Answers by code."""
        self.strikes: Mapping[str, Strike] = {
            "kill master": lambda: self.kill(MASTER),
            "kill slave": lambda: self.kill(SLAVE),
            "kill both": lambda: self.kill(MASTER, SLAVE),
            "kill both, slave first": lambda: self.kill(SLAVE, MASTER),
            "kill master, again at its start": lambda: self.kill_early(MASTER),
            "kill slave, again at its start": lambda: self.kill_early(SLAVE),
            "stop master": lambda: self.stand_still(MASTER),
            "stop slave": lambda: self.stand_still(SLAVE),
            "kill master while its slave is stopped": lambda: self.kill_beside_stopped(MASTER, SLAVE),
            "kill slave while its master is stopped": lambda: self.kill_beside_stopped(SLAVE, MASTER),
        }
        slave = {**QUICK_SYNC, "haFirstSync": "minOffset"}
        self.group = self.group_class(folder, settings=self._settings(), slave_settings=slave)
        self._producers = 0
        self._deck: list[str] = []

    def _settings(self) -> dict[str, Setting]:
        return {
            **SMALL_STORE,
            "mappedFileSizeCommitLog": self.random.choice((1 << 18, 1 << 20)),
            "slaveTimeout": 1000,
            "flushDiskType": "SYNC_FLUSH" if self.terms.sync_flush else "ASYNC_FLUSH",
            "haAck": "durable" if self.terms.durable_acks else "received",
        }

    @property
    def brokers(self) -> dict[str, ServerProcess]:
        """By their names in the promises."""
        return {MASTER: self.group.master, SLAVE: self.group.slave}

    def __enter__(self) -> CrashSeries:
        for broker in self.brokers.values():
            broker.start(wait=None)
        self._ready()
        return self

    def __exit__(self, *failure: object) -> None:
        self.group.__exit__(None, None, None)

    def round(self) -> None:
        """A strike under load, and what holds when all runs again.

        Raises AssertionError with the broken promises.
        """
        kind = self._draw()
        with self._load() as producer:
            producer.wait_acked(SOME)
            time.sleep(self.random.uniform(0, MOMENTS))
            self.strikes[kind]()
            self._ready()
            producer.wait_acked(SOME)
        self.group.wait_caught_up()
        self.struck[kind] += 1
        self.codes += producer.codes
        broken = [str(violation) for violation in self.violations()]
        assert not broken, (
            f"seed {self.seed}, {self.terms}, after {dict(self.struck)}, the last was {kind}:\n"
            + ("\n".join(broken[:20]))
        )
        for name, broker in self.brokers.items():
            assert "Traceback" not in broker.log_text(), f"{name} has logged a traceback: {broker.log_path}"

    def _draw(self) -> str:
        """The next kind; none comes again before all have come."""
        if not self._deck:
            self._deck = self.random.sample(list(self.strikes), len(self.strikes))
        return self._deck.pop()

    def _load(self) -> JudgedProducer:
        self._producers += 1
        judges = Judges(self.promises, self.terms, MASTER, SLAVE)
        return self.producer_class(self.group.master_port, self._producers, PACE, judges)

    def _ready(self) -> None:
        """Whatever doesn't run is started, and all answer."""
        for broker in self.brokers.values():
            if not broker.running:
                broker.start(wait=None)
        for broker in self.brokers.values():
            broker.wait_ready()

    def violations(self) -> Iterator[Violation]:
        """What doesn't hold; only while nothing is sent, and both have caught up."""
        with self._views() as views:
            for view in views:
                yield from self.promises.check_all_stored(view)
                yield from self.promises.check_readable(view, QUEUE_KEYS)
            unequal = Promises.check_equal(*views)
            if unequal is not None:
                yield unequal

    @contextlib.contextmanager
    def _views(self) -> Iterator[list[StoreView]]:
        """What both hold now."""
        group = self.group
        with group.master_client() as master, group.slave_client() as slave:
            yield [
                RunningStore(MASTER, master, group.master_store),
                RunningStore(SLAVE, slave, group.slave_store),
            ]

    # -- strikes ---------------------------------------------------------------------------------------------

    def kill(self, *names: str) -> None:
        """kill -9."""
        for name in names:
            self.brokers[name].kill()

    def kill_early(self, name: str) -> None:
        """kill -9, and again while it starts."""
        broker = self.brokers[name]
        broker.kill()
        broker.start(wait=None)
        time.sleep(self.random.uniform(*EARLY))
        broker.kill()

    def stand_still(self, name: str) -> None:
        """SIGSTOP, and SIGCONT a while later."""
        broker = self.brokers[name]
        broker.suspend()
        time.sleep(self.random.uniform(*PAUSES))
        broker.resume()

    def kill_beside_stopped(self, name: str, other: str) -> None:
        """kill -9 of one while the other stands still."""
        self.brokers[other].suspend()
        time.sleep(self.random.uniform(*PAUSES))
        self.kill(name)
        self.brokers[other].resume()
