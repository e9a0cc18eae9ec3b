"""Each loop of whole nodes is made to fail once, as by a mistake of ours: it goes on with its next turn.

A master, its slave and a name server run on one clock and a network in memory; the master takes messages all the
time, so that loops which sleep on an idle broker turn as well.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.config.schema import BrokerRole, FlushDiskType
from hatwisted.remoting.client import RemotingClient
from hatwisted.store.log.put import Put
from hatwisted.timing.periodic import PeriodicCall
from hatwisted.timing.timer import GuardedTimer
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.layout import PROPERTY_REAL_QUEUE_ID, PROPERTY_REAL_TOPIC, SCHEDULE_TOPIC
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.remoting import RemotingCommand
from tests.support.memorynode import NAME_SERVER, MemoryNodes

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
STEP = 0.25
LONGEST = 260.0
"""Seconds that hold two turns of the rarest loop, scanning for idle connections."""

EVERY_BROKER = Counter(
    {
        "dispatch": 2,
        "ending held pulls": 2,
        "expiring waits": 4,  # a flush line and a slave line each
        "forgetting lapsed locks": 2,
        "removing expired files": 2,
        "sampling the statistics of topics and groups": 2,
        "sampling the store's statistics": 2,
        "syncing queues, index and checkpoint": 2,
        "recording the day's totals": 2,
        "checking the disk": 2,
        "checking held pulls": 2,
        "checking the slaves' links": 2,
        "registering changed topics": 2,
        "registering with the name servers": 2,
        "scanning for idle connections": 5,  # two ports each, and the name server's
        "scanning for silent clients": 2,
        "writing queue entries": 2,
        "writing tables that changed": 6,
    }
)
MASTER_ONLY = Counter(  # the one of this test is a SYNC_FLUSH one besides
    {
        "answering held pulls": 1,
        "delivery of delay level 1": 1,
        "background flush": 1,
        "registering at 10.0.0.9:9876": 1,
        "checking undecided transactions": 1,
    }
)
SLAVE_ONLY = Counter(
    {
        "asking the master how far its log is": 1,
        "comparing the log with the master's": 1,
        "dialling the master": 1,
        "flushing the commit log": 1,
        "synchronising with the master": 1,
        "watching the master's tables": 1,
        "checking the HA link": 1,
        "searching for a master": 1,
        "waiting for the log that the master's tables refer to": 1,
        "asking for the numbers of queues": 1,
    }
)
OF_A_NAME_SERVER = Counter({"scanning for silent brokers": 1})


class Mistake(Exception):
    """What each loop raises once."""


class Loop:
    """One loop's turns; the first raises."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turns = 0

    def guard(self, work: object) -> object:
        def turn() -> object:
            self.turns += 1
            if self.turns == 1:
                raise Mistake(self.name)
            return work()  # type: ignore[operator]

        return turn


class LoopTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = MemoryNodes(self)
        self.clock = self.nodes.clock
        self.loops: list[Loop] = []
        for kind in (PeriodicCall, GuardedTimer):
            self.watch(kind)

    def watch(self, kind: type) -> None:
        """Every loop made from now on raises at its first turn."""
        make = kind.__init__

        def made(its: object, clock: object, name: str, work: object, *more: object, **named: object) -> None:
            loop = Loop(name)
            self.loops.append(loop)
            make(its, clock, name, loop.guard(work), *more, **named)

        self.patch(kind, "__init__", made)

    def broker(self, host: str, role: BrokerRole, **more: object) -> Any:
        """A broker of the group, started."""
        return self.nodes.start(
            host, broker_role=role, namesrv_addr=NAME_SERVER, message_delay_level="1s", **more
        )

    def pass_time(self, seconds: float) -> None:
        self.nodes.pass_time(seconds, STEP)

    def test_every_loop_goes_on(self) -> None:
        master = self.broker("10.0.0.1", BrokerRole.SYNC_MASTER, flush_disk_type=FlushDiskType.SYNC_FLUSH)
        master.parts.tables.topics.for_send("T", "TBW102", 4)
        self.pass_time(65)  # nobody to register with
        names = self.nodes.start_name_server()
        slave = self.broker("10.0.0.2", BrokerRole.SLAVE, broker_id=1)
        client = self.nodes.client
        for second in range(int(LONGEST)):
            hold = slave.services.synchronizer._hold
            if second == 30 and not hold.waiting:
                hold.wait(slave.parts.store.log.max_offset + 1)
            self.put(master, "T")
            self.put_delayed(master)
            master.parts.ha.wait(
                end := master.parts.store.log.max_offset + 1, end, self.clock.seconds() + 0.5
            )
            master.parts.store.flush._flusher.line.wait(end, self.clock.seconds() + 0.5)
            slave.parts.ha.group_transfer.wait(end, end, self.clock.seconds() + 0.5)
            slave.parts.store.flush._flusher.line.wait(end, self.clock.seconds() + 0.5)
            self.hold_a_pull(client, master.parts.store.queue_end("T", 0) + 1)
            self.pass_time(1)
        self.assertEqual(
            slave.parts.store.log.max_offset,
            master.parts.store.log.max_offset,
            "replication went on all the time",
        )
        self.check_loops()
        for node in (slave, master, names):
            self.nodes.stop(node)
        self.assertEqual(
            len(self.flushLoggedErrors(Mistake)), len([each for each in self.loops if each.turns])
        )

    def check_loops(self) -> None:
        stuck = [loop.name for loop in self.loops if loop.turns == 1]
        self.assertEqual(stuck, [], "these had no turn after the one that failed")
        turned = Counter(loop.name for loop in self.loops if loop.turns)
        expected = EVERY_BROKER + MASTER_ONLY + SLAVE_ONLY + OF_A_NAME_SERVER
        self.assertEqual(turned - expected, Counter(), "loops that this test doesn't know")
        self.assertEqual(expected - turned, Counter(), "loops that never turned")

    def put(self, broker: object, topic: str, properties: dict[str, str] | None = None) -> None:
        encoded = encode_properties(properties or {})
        put = Put(topic, 0, ((0, b"body", encoded),), HOST, int(self.clock.seconds() * 1000))
        broker.parts.store.append([put])  # type: ignore[attr-defined]
        self.assertGreaterEqual(put.end, 0, put.reason)

    def put_delayed(self, broker: object) -> None:
        self.put(
            broker, SCHEDULE_TOPIC, {"DELAY": "1", PROPERTY_REAL_TOPIC: "T", PROPERTY_REAL_QUEUE_ID: "0"}
        )

    def hold_a_pull(self, client: RemotingClient, offset: int) -> None:
        ext = {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "0",
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "6",
            "commitOffset": "0",
            "suspendTimeoutMillis": "5000",
            "subscription": "*",
            "subVersion": "0",
        }
        command = RemotingCommand(RequestCode.PULL_MESSAGE, ext=ext)
        client.ask("10.0.0.1:10911", command, 5).addErrback(lambda _: None)
