"""A master crashes under a reading consumer of ours, and everything has the intervals it is shipped with."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.broker.consumer.consumeroffset import CHECK_GROUP
from hatwisted.client.cluster import Cluster
from hatwisted.clientcore.options import ConsumeFrom
from hatwisted.config.schema import BrokerRole
from hatwisted.store.errors import StoreLocked
from hatwisted.wire.layout import HALF_TOPIC
from tests.support.memorynode import NAME_SERVER, MemoryNodes, MortalClock

MASTER, SLAVE, CONSUMER = "10.0.0.1", "10.0.0.2", "10.0.0.50"
BOUND = 35.0
"""Seconds from the crash until a consumer reads on: RocketMQ's clients ask for routes every 30 s."""


class FailoverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.nodes = nodes = MemoryNodes(self)
        self.names = nodes.start_name_server()
        parts = nodes.parts(MASTER, clock=MortalClock(nodes.clock))
        self.master = nodes.start(MASTER, parts, namesrv_addr=NAME_SERVER)
        self.slave = nodes.start(SLAVE, broker_role=BrokerRole.SLAVE, broker_id=1, namesrv_addr=NAME_SERVER)
        nodes.pass_time(5)
        self.cluster = Cluster(nodes.clock, NAME_SERVER, connecting=nodes.network.host(CONSUMER))
        self.addCleanup(lambda: nodes.result(self.cluster.close(), 60))

    def read_until(self, seen: list[bytes], count: int) -> float:
        """Seconds until that many have come."""
        begun = self.nodes.clock.seconds()
        while len(seen) < count:
            self.nodes.pass_time(0.25, 0.25)
            self.assertLess(self.nodes.clock.seconds(), begun + 2 * BOUND, seen)
        return self.nodes.clock.seconds() - begun

    def test_B124_from_crash_to_reading_on_the_slave_takes_35_s_at_most_and_loses_nothing(self) -> None:
        sent = [b"%d" % number for number in range(8)]
        for body in sent[:4]:
            self.assertEqual(self.nodes.send(f"{MASTER}:10911", body), 0)
        seen: list[bytes] = []

        async def take(messages: Any) -> None:
            seen.extend(message.body for message in messages)

        consumer = self.cluster.consumer("g", {"T": "*"}, on_messages=take, consume_from=ConsumeFrom.FIRST)
        self.nodes.result(consumer.start())
        self.read_until(seen, 4)
        self.nodes.pass_time(12)  # progress is committed and copied
        self.assertEqual(self.slave.parts.store.log.max_offset, self.master.parts.store.log.max_offset)
        self.cut_off_consumer()
        for body in sent[4:]:
            self.assertEqual(self.nodes.send(f"{MASTER}:10911", body), 0)
        self.assertEqual(self.slave.parts.store.log.max_offset, self.master.parts.store.log.max_offset)
        self.nodes.crash(self.master, MASTER)
        self.assertLessEqual(self.read_until(seen, 8), BOUND)
        self.nodes.pass_time(60)
        self.assertEqual(sorted(seen), sent)

    def test_B124_progress_is_at_the_broker_within_5_s(self) -> None:
        self.assertEqual(self.nodes.send(f"{MASTER}:10911"), 0)
        handled: Deferred[None] = Deferred()
        seen: list[bytes] = []

        async def take(messages: Any) -> None:
            seen.extend(message.body for message in messages)
            await handled

        consumer = self.cluster.consumer("g", {"T": "*"}, on_messages=take, consume_from=ConsumeFrom.FIRST)
        self.nodes.result(consumer.start())
        self.read_until(seen, 1)
        self.nodes.pass_time(1)  # the next pull is held by the broker: none will tell it of the progress soon
        handled.callback(None)
        self.nodes.pass_time(5.5)
        self.assertEqual(self.master.parts.tables.offsets.query("g", "T", 0), 1)

    def test_B161_a_slave_whose_master_is_gone_stays_a_slave(self) -> None:
        self.nodes.crash(self.master, MASTER)
        self.nodes.pass_time(300, 0.25)
        self.assertEqual(self.nodes.send(f"{SLAVE}:10911"), 14)
        group = self.names.routes.group("broker-a")
        self.assertEqual(group.broker_addrs, {1: f"{SLAVE}:10911"})

    def pulled(self, broker: Any, host: str) -> int:
        """The answer to a group's pull."""
        broker.parts.tables.groups.find("g")
        fields = {"consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32}
        fields |= {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*"}
        return int(self.nodes.ask(f"{host}:10911", 11, subVersion=0, **fields).code)

    def test_a_former_master_gives_no_message_until_its_log_is_known_to_be_the_new_ones(self) -> None:
        self.assertEqual(self.nodes.send(f"{MASTER}:10911", b"both"), 0)
        self.nodes.pass_time(12)
        self.assertEqual([self.pulled(self.master, MASTER), self.pulled(self.slave, SLAVE)], [0, 0])
        self.nodes.stop(self.slave)
        self.assertEqual(self.nodes.send(f"{MASTER}:10911", b"the former master's"), 0)
        self.nodes.stop(self.master)
        new = self.nodes.start(SLAVE, namesrv_addr=NAME_SERVER)
        self.assertEqual(self.nodes.send(f"{SLAVE}:10911", b"the new master's own"), 0)
        former = self.former_master()
        self.assertEqual(self.pulled(former, MASTER), 14)
        self.nodes.stop(former)
        former = self.former_master()
        self.assertEqual(self.pulled(former, MASTER), 14)
        self.nodes.stop(new)
        self.nodes.pass_time(35)
        self.assertEqual(
            self.pulled(former, MASTER), 14
        )  # a master may be there whom the name server can't reach

    def test_a_former_master_that_the_new_one_has_everything_of_is_read_once_it_is_linked(self) -> None:
        self.assertEqual(self.nodes.send(f"{MASTER}:10911", b"both"), 0)
        self.nodes.pass_time(12)
        self.nodes.stop(self.slave)
        self.nodes.stop(self.master)
        new = self.nodes.start(SLAVE, namesrv_addr=NAME_SERVER)
        former = self.former_master()
        self.nodes.pass_time(5)
        self.assertEqual(self.pulled(former, MASTER), 0)
        self.nodes.stop(former)
        self.nodes.result(new.parts.ha.stopService())  # nobody links up any more
        former = self.former_master()
        self.assertFalse(former.services.ha_client.fits)
        self.assertEqual(self.pulled(former, MASTER), 0)

    def test_a_former_master_that_was_linked_is_read_after_a_kill_as_well(self) -> None:
        """Its master may be gone when it's back."""
        self.assertEqual(self.nodes.send(f"{MASTER}:10911", b"both"), 0)
        self.nodes.pass_time(12)
        self.nodes.stop(self.slave)
        self.nodes.stop(self.master)
        new = self.nodes.start(SLAVE, namesrv_addr=NAME_SERVER)
        parts = self.nodes.parts(MASTER, clock=MortalClock(self.nodes.clock))
        former = self.nodes.start(
            MASTER, parts, broker_role=BrokerRole.SLAVE, broker_id=1, namesrv_addr=NAME_SERVER
        )
        self.nodes.pass_time(60)
        self.assertTrue(former.services.ha_client.fits)
        self.assertEqual(self.pulled(former, MASTER), 0)
        self.nodes.crash(former, MASTER)
        former.parts.store._lock.release()
        self.nodes.stop(new)
        former = self.former_master()
        self.assertEqual(self.pulled(former, MASTER), 0)

    def former_master(self) -> Any:
        started = self.nodes.start(
            MASTER, broker_role=BrokerRole.SLAVE, broker_id=1, namesrv_addr=NAME_SERVER
        )
        self.nodes.pass_time(1)
        return started

    def cut_off_consumer(self) -> None:
        """It has no connection to the master and gets none: what is sent now, only the brokers know."""
        self.nodes.network.silent_hosts.add(MASTER)
        for transport in list(self.nodes.network.transports):
            if {transport.getHost().host, transport.getPeer().host} == {MASTER, CONSUMER}:
                transport.lost(ConnectionLost())


class PromotionTests(SynchronousTestCase):
    """B104a: progress that a slave has copied is of no use to it without the messages that it rests on."""

    def setUp(self) -> None:
        self.nodes = nodes = MemoryNodes(self)
        self.settings = {"message_delay_level": "3s 5s", "transaction_check_interval": 5000}
        parts = nodes.parts(MASTER, clock=MortalClock(nodes.clock))
        self.master = nodes.start(MASTER, parts, **self.settings)
        self.slave = nodes.start(
            SLAVE,
            broker_role=BrokerRole.SLAVE,
            broker_id=1,
            ha_master_address=f"{MASTER}:10912",
            **self.settings,
        )
        nodes.pass_time(5)

    def link_lags(self) -> None:
        """From here on the slave gets tables and no log any more."""
        self.assertEqual(self.slave.parts.store.log.max_offset, self.master.parts.store.log.max_offset)
        self.nodes.result(self.slave.services.ha_client.stopService())

    def promoted(self) -> Any:
        """The master's machine is lost, its slave's store is opened as a master's."""
        self.nodes.crash(self.master, MASTER)
        self.nodes.stop(self.slave)
        return self.nodes.start(SLAVE, **self.settings)

    def test_B104a_a_delayed_message_delivered_on_the_lost_master_alone_is_delivered(self) -> None:
        self.assertEqual(self.nodes.send(f"{MASTER}:10911", b"pay", properties="DELAY\x011"), 0)
        self.nodes.pass_time(0.5)
        self.link_lags()
        self.nodes.pass_time(25)
        self.assertEqual(self.master.parts.tables.delays.get(1), 1)
        self.assertEqual(self.slave.parts.store.queue_end("T", 0), 0)
        promoted = self.promoted()
        self.nodes.pass_time(10)
        self.assertEqual(promoted.parts.store.queue_end("T", 0), 1)

    def test_B104a_a_transaction_committed_on_the_lost_master_alone_is_asked_about(self) -> None:
        address = f"{MASTER}:10911"
        properties = "TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01U1"
        self.assertEqual(self.nodes.send(address, b"half", properties=properties), 0)
        self.nodes.pass_time(0.5)
        self.link_lags()
        ended = self.nodes.ask(
            address, 37, producerGroup="g", tranStateTableOffset=0, commitLogOffset=0, commitOrRollback=8
        )
        self.assertEqual(ended.code, 0)
        self.nodes.pass_time(40)
        checked = self.master.parts.tables.offsets.query(CHECK_GROUP, HALF_TOPIC, 0)
        self.assertEqual((checked, self.master.parts.store.queue_end("T", 0)), (1, 1))
        promoted = self.promoted()
        self.nodes.pass_time(10)
        self.assertEqual(promoted.parts.store.queue_end(HALF_TOPIC, 0), 2, "put again to be asked about")


class OneLogTests(SynchronousTestCase):
    def test_two_brokers_with_folders_of_their_own_and_one_log_are_refused(self) -> None:
        nodes = MemoryNodes(self)
        for other, log_folder in ((SLAVE, "commitlog"), (CONSUMER, "shared-log")):
            path = str(nodes.folder / "elsewhere" / log_folder)
            first = nodes.start(MASTER, store_path_commit_log=path)
            second = build_broker(nodes.config(other, store_path_commit_log=path), nodes.parts(other))
            refused = self.assertRaises(StoreLocked, second.startService)
            self.assertIn("elsewhere", str(refused))
            self.assertEqual(nodes.send(f"{MASTER}:10911"), 0)
            nodes.stop(first)
