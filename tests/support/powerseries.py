"""A master under SYNC_FLUSH and its slave as processes on disks of their own, whose power fails again and again.

A life is what lies between two failures: both start on what the last one has left, with another boot's id as after
any reboot; what was promised to be durable must be there; then load, often with a kill -9 in it, until the power
fails. The moment is drawn afterwards, from the recording, and may lie in the recovery, too. Judged by the promises
of the simulation, as the series of kills is.
"""

from __future__ import annotations

import random
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner
from msgspec.structs import replace

from hatwisted.cli.main import main
from hatwisted.sim.history import Sent, Violation
from hatwisted.sim.promises import Promises, Terms
from hatwisted.wire.codes import RequestCode
from testbed.brokergroup import QUICK_SYNC, SMALL_STORE, BrokerGroup, info_of
from testbed.processes import ServerDied, ServerProcess, wait_until
from testbed.remotingclient import RemotingClient
from testbed.storefiles import first_difference
from tests.support.hastatus import links
from tests.support.judgedproducer import JudgedProducer, Judges
from tests.support.producer import QUEUES, TOPICS
from tests.support.recordeddisks import RecordedDisks, begin_writeback
from tests.support.runningstore import RunningStore

NAMES = MASTER, SLAVE = "master", "slave"
FAILING = [NAMES, NAMES, NAMES, (MASTER,), (SLAVE,)]
"""Whose power fails at the end of a life; the other one is killed, and keeps its page cache."""
PACE = 300
WRITEBACKS = (2, 10)
"""In a life."""
WRITTEN_BACK = 0.5
"""How many lives end with one, so that much has been written and not flushed."""
SOME = (5, 40)
"""Acknowledged messages from one to the next."""
KILLS = 0.5
"""How many lives see a kill -9 of either side, too."""
TOPIC_DEFAULTS = {
    "defaultTopic": "TBW102",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}
QUEUE_KEYS = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]
BROKEN = 0.15
"""How many lives end with a disk that takes nothing more."""
BROKEN_SECONDS = (0.2, 1.5)
BOOT_ID = "/proc/sys/kernel/random/boot_id"
RECOVERY_SECONDS = 60.0


class Chronicle:
    """What was sent and answered in one life, by moments of the recording. Hears what Promises hear.

    - disks: whose recording it is
    """

    def __init__(self, disks: RecordedDisks) -> None:
        self._disks = disks
        self._sent: list[Sent] = []
        self._answered: list[tuple[int, Sent]] = []

    def send(self, sent: Sent) -> None:
        """See Promises."""
        self._sent.append(replace(sent))

    def answered(self, sent: Sent, master: str, slave: str, terms: Terms) -> None:
        """See Promises; the answer has come, so what it rests on is in the journal."""
        self._answered.append((self._disks.position(), replace(sent)))

    def moments(self) -> list[int]:
        """At which answers came."""
        return [position for position, _ in self._answered]

    def tell(self, promises: Promises, terms: Terms, position: int) -> None:
        """What was known at that moment."""
        for sent in self._sent:
            promises.send(sent)
        for at, answer in self._answered:
            if at <= position:
                sent = promises.sent[answer.number]
                sent.code, sent.place = answer.code, answer.place
                promises.answered(sent, MASTER, SLAVE, terms)


class PowerSeries:
    """One pair.

    - folder: for disks, settings and output
    - seed: draws settings, loads and moments
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(f"{seed}/power")
        self.terms = Terms(sync_slaves=True, sync_flush=True, durable_acks=self.random.random() < 0.7)
        self.promises = Promises()
        self.lives = 0
        self.cut_back = 0
        """Starts at which the slave had more than its master, and an operator had to cut its log."""
        self.broken = 0
        """Lives at whose end a disk was broken."""
        self.story: list[str] = []
        self._disks = RecordedDisks(folder / "disks", 2)
        self._folder = folder
        self._group = BrokerGroup(
            folder,
            settings={
                **SMALL_STORE,
                "mappedFileSizeCommitLog": self.random.choice((1 << 18, 1 << 20)),
                "slaveTimeout": 1000,
                "flushDiskType": "SYNC_FLUSH",
                "haAck": "durable" if self.terms.durable_acks else "received",
            },
            # What it acknowledges as durable it syncs all the same.
            slave_settings={**QUICK_SYNC, "haFirstSync": "minOffset", "flushDiskType": "ASYNC_FLUSH"},
        )
        self._group.master_store, self._group.slave_store = (path / "store" for path in self._disks.paths)
        for name, broker in ((MASTER, self._group.master), (SLAVE, self._group.slave)):
            self._reboot(name)
            command = f'mount --bind {folder}/{name}-boot {BOOT_ID} && exec "$0" "$@"'
            broker.argv = ["unshare", "--mount", "sh", "-c", command, *broker.argv]

    def life(self) -> None:
        """Start, judge, load, and a failure of the power. Raises AssertionError with what doesn't hold."""
        chronicle = Chronicle(self._disks)
        with self._disks, self._group:
            begin = self._disks.position()
            self._judge()
            end, broken_disk = self._load(chronicle)
        moments = [moment for moment in chronicle.moments() if moment <= end]
        # What a broken disk hasn't taken is lost with the page cache, as by a failure of power.
        failing = (NAMES[broken_disk],) if broken_disk is not None else self.random.choice(FAILING)
        position = end
        if len(failing) == 2:  # nobody has lived on, so the moment may be any
            position = self.random.choice((
                self.random.randint(begin, end),
                self.random.choice(moments),
                self.random.choice(moments),
                self.random.choice(self._disks.unflushed(begin, end)),
            ))  # fmt: skip
        lost = self._disks.fail(position, [NAMES.index(name) for name in failing], self.random)
        chronicle.tell(self.promises, self.terms, position)
        for name in failing:
            self.promises.power_lost(name)
            self._reboot(name)
        self.lives += 1
        answers = sum(moment <= position for moment in moments)
        self.story.append(
            f"life {self.lives}: {answers} of {len(moments)} answers had come; "
            f"{' and '.join(failing)}{'' if broken_disk is None else ' (broken disk)'}: {lost}"
        )

    def end(self) -> None:
        """Start once more, and judge what the last failure has left. Raises AssertionError, too."""
        with self._disks, self._group:
            self._judge()

    def _judge(self) -> None:
        broken = list(map(str, self._start()))
        assert not broken, "\n".join((f"seed {self.seed}, {self.terms}:", *self.story, *broken[:20]))

    def _reboot(self, name: str) -> None:
        """The broker's next start is on a machine that has been started again."""
        (self._folder / f"{name}-boot").write_text(f"{uuid.UUID(int=self.random.getrandbits(128))}\n")

    def _start(self) -> Iterator[Violation]:
        """Each broker by itself, the slave first: what it has it can't have from its master. Then the link."""
        group = self._group
        ends = {}
        for name, broker, store in (
            (SLAVE, group.slave, group.slave_store),
            (MASTER, group.master, group.master_store),
        ):
            try:
                broker.start()
            except ServerDied as death:
                yield Violation("opens", f"{name}: {death}")
                return
            wait_until(
                lambda port=broker.port: _dispatched(port), RECOVERY_SECONDS, f"{name} has dispatched its log"
            )
            with RemotingClient("127.0.0.1", broker.port) as client:
                view = RunningStore(name, client, store)
                ends[name] = view.log_range()[1]
                yield from self.promises.check_all_stored(view)
                yield from self.promises.check_readable(view, QUEUE_KEYS)
        if ends[SLAVE] > ends[MASTER]:
            self._cut_slave(ends[MASTER])
        group.wait_caught_up()
        unequal = first_difference(group.master_store, group.slave_store, group.master_end())
        if unequal is not None:
            yield Violation("equal", f"the logs of two that are linked differ at {unequal}")

    def _cut_slave(self, end: int) -> None:
        """What an operator does: nobody was told SEND_OK of what the master hasn't kept."""
        slave, store = self._group.slave, self._group.slave_store
        slave.stop()
        if end == 0:
            shutil.rmtree(store)
        else:
            done = CliRunner().invoke(main, ["log", "cut", str(store), "--at", str(end), "--yes"])
            assert done.exit_code == 0, done.output
        slave.start()
        self.cut_back += 1

    def _load(self, chronicle: Chronicle) -> tuple[int, int | None]:
        """A moment in the middle of the load, and the number of a disk that has broken before it."""
        judges = Judges(chronicle, self.terms, MASTER, SLAVE)
        broken_disk = None
        if not self._slave_has_topics():  # logs that are both empty are equal without a link
            wait_until(lambda: links(self._group.master_port), RECOVERY_SECONDS, "the slave is linked")
        self._make_topics()
        with JudgedProducer(self._group.master_port, self.lives + 1, PACE, judges) as producer:
            for _ in range(self.random.randint(*WRITEBACKS)):
                producer.wait_acked(self.random.randint(*SOME))
                begin_writeback(self.random.choice(self._disks.paths))
            if self.random.random() < BROKEN:
                broken_disk = self.random.randrange(len(NAMES))
                self._disks.break_one(broken_disk)
                self.broken += 1
                time.sleep(self.random.uniform(*BROKEN_SECONDS))
            elif self.random.random() < KILLS:
                self._kill(self.random.choice((self._group.master, self._group.slave)))
                producer.wait_acked(SOME[0])
            time.sleep(self.random.uniform(0, 0.2))
            if self.random.random() < WRITTEN_BACK:
                for path in self._disks.paths:
                    begin_writeback(path)
            end = self._disks.position()
        return end, broken_disk

    def _slave_has_topics(self) -> bool:
        with self._group.slave_client() as client:
            table = client.call(RequestCode.GET_ALL_TOPIC_CONFIG).expect(0).json()
        assert isinstance(table, dict)
        return all(topic in table["topicConfigTable"] for topic in TOPICS)

    def _make_topics(self) -> None:
        """By an operator's order, until the answer names no slave that lacks them. One that its first message
        makes reaches the slave's disk a moment later, and the power may fail in between."""
        queues = str(QUEUES)
        with self._group.master_client() as client:
            for topic in TOPICS:
                order = {"topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": "6"}
                wait_until(
                    lambda order=order: (
                        not client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, order | TOPIC_DEFAULTS)
                        .expect(0)
                        .remark
                    ),
                    RECOVERY_SECONDS,
                    f"{topic} is on both",
                )

    @staticmethod
    def _kill(broker: ServerProcess) -> None:
        broker.kill()
        broker.start()


def _dispatched(port: int) -> bool:
    return info_of(port)["dispatchBehindBytes"] == "0"
