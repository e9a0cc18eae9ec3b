"""Where a reader goes on after each kind of answer, and whom it believes."""

from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.consumerstats import ConsumerStats
from hatwisted.clientcore.options import ConsumerOptions
from hatwisted.clientcore.queuereader import ELSEWHERE_PAUSE, PAUSE, QueueReader
from hatwisted.clientcore.routes import UNREACHABLE_PAUSE
from hatwisted.clientcore.subscription import parse_subscription
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.record import encode_record
from hatwisted.wire.registration import BrokerData, QueueData, TopicRoute, encode_body
from hatwisted.wire.storedrecord import Record, crc
from tests.support.clusterrig import MemoryRig, asynchronous

HOST = HostPort(b"\x7f\0\0\x01", 10911)
QUEUE = MessageQueue(broker_name="b", queue_id=0, topic="T")
SUCCESS, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21


def record(offset):
    body = b"%d" % offset
    return encode_record(
        Record(
            "T", 0, 0, 0, offset, offset * 200, 1, HOST, 2, HOST, 0, 0, body, b"", crc(body), 92 + len(body)
        )
    )


class Owner:
    """A consumer of group "g" that takes nothing."""

    group = "g"

    def __init__(self, clock):
        self.stats = ConsumerStats(clock)

    def arrived(self, reader):
        pass

    def carries_progress(self, queue):
        return True


class ScriptedPulls(TestCase):
    """One broker that answers pulls as told, as a master or as a slave."""

    timeout = 50
    broker_id = 0
    suggestion = "0"

    def setUp(self):
        table = ProcessorTable()
        table.register(105, self.route)
        table.register(11, self.pull)
        self.pulls, self.answers = [], []
        self.rig = MemoryRig(self)
        self.factory = RemotingServerFactory(table, self.rig.clock)
        self.port = self.rig.network.listenTCP(0, self.factory, interface="127.0.0.1")
        self.address = f"127.0.0.1:{self.port.getHost().port}"
        self.clock = Clock()
        self.cluster = Cluster(self.clock, self.address, connecting=self.rig.network)
        self.reader = QueueReader(
            self.cluster.session,
            Owner(self.clock),
            QUEUE,
            parse_subscription("T", "*", 1),
            100,
            ConsumerOptions(),
        )

        self.rig.add_cleanup(self.stop)

    @inlineCallbacks
    def stop(self):
        self.reader.stop()
        yield self.cluster.close()
        yield self.port.stopListening()
        for connection in list(self.factory.connections):
            connection.abort()

    def addresses(self):
        return {self.broker_id: self.address}

    def route(self, connection, request):
        data = BrokerData(broker_addrs=self.addresses(), broker_name="b", cluster="C")
        queues = QueueData(broker_name="b", perm=6, read_queue_nums=1, write_queue_nums=1)
        return response(request, 0, body=encode_body(TopicRoute(broker_datas=[data], queue_datas=[queues])))

    def pull(self, connection, request):
        self.pulls.append((int(request.ext["queueOffset"]), int(request.ext["commitOffset"])))
        if not self.answers:
            return Deferred()
        code, following, body = self.answers.pop(0)
        ext = {
            "nextBeginOffset": str(following),
            "suggestWhichBrokerId": self.suggestion,
            "minOffset": "0",
            "maxOffset": "0",
        }
        return response(request, code, "as told", ext, body)

    async def begin(self, *answers):
        self.answers += answers
        await deferred(self.cluster.session.routes.route("T"))
        self.reader.start()
        await self.until_pulled(1)

    async def until_pulled(self, count):
        await self.rig.until(lambda: len(self.pulls) >= count)

    def waits(self, pause):
        """Does the reader wait so long before it goes on?"""
        now = self.clock.seconds()
        return any(abs(call.getTime() - now - pause) < 1e-6 for call in self.clock.getDelayedCalls())


class TestAMastersWord(ScriptedPulls):
    @asynchronous
    async def test_is_followed_forth_and_back(self):
        await self.begin((MOVED, 500, b""), (MOVED, 20, b""), (RETRY, 30, b""))
        await self.until_pulled(4)
        self.assertEqual([at for at, _ in self.pulls], [100, 500, 20, 30])

    @asynchronous
    async def test_back_makes_void_what_was_noted(self):
        """A slave may have noted it while the master was away: the master has to hear of it all the same."""
        self.reader.noted(100)
        await self.begin((MOVED, 60, b""))
        await self.until_pulled(2)
        self.assertIsNone(self.reader.committed)

    @asynchronous
    async def test_B165_sent_back_it_commits_nothing_beyond_with_its_next_pull(self):
        """A pull from within is believed, and so would be the commit that comes with it: what lies between would
        be lost if another member got the queue before it has come."""
        await self.begin((SUCCESS, 102, record(100) + record(101)), (MOVED, 90, b""))
        await self.until_pulled(3)
        self.assertEqual(self.pulls, [(100, 100), (102, 100), (90, 90)])
        self.assertEqual((self.reader.progress, self.reader.buffered), (90, 0), "they come again")

    @asynchronous
    async def test_again_at_the_same_place_waits_a_little(self):
        await self.begin((RETRY, 100, b""))
        await self.rig.until(lambda: self.waits(PAUSE))
        self.clock.advance(PAUSE)
        await self.until_pulled(2)
        self.assertEqual([at for at, _ in self.pulls], [100, 100])

    @asynchronous
    async def test_progress_is_the_first_unsettled_message_and_travels_with_pulls(self):
        await self.begin((SUCCESS, 103, record(100) + record(101) + record(102)))
        await self.until_pulled(2)
        self.assertEqual((self.pulls, self.reader.buffered), ([(100, 100), (103, 100)], 3))
        first, second = self.reader.take(2)
        self.assertEqual((first.body, self.reader.progress), (b"100", 100))
        self.assertEqual(self.reader.take(2), [first, second], "not settled: the same again")
        self.reader.settle([second])
        self.assertEqual((self.reader.progress, self.reader.buffered), (101, 2))
        self.reader.take(1)
        self.reader.stop()
        self.assertEqual(self.reader.progress, 101, "in the program's hands")
        self.reader.settle()
        self.assertEqual((self.reader.progress, self.reader.buffered_bytes), (102, 0))


class TestASlavesWord(ScriptedPulls):
    broker_id = 1

    @asynchronous
    async def test_brings_messages_but_moves_nobody(self):
        await self.begin((SUCCESS, 101, record(100)), (RETRY, 150, b""), (MOVED, 500, b""))
        await self.until_pulled(3)
        self.answers += [(MOVED, 20, b""), (NOT_FOUND, 0, b""), (NOT_FOUND, 150, b"")]
        for count in (4, 5, 6, 7):
            await self.rig.until(lambda count=count: len(self.pulls) >= count or self.waits(PAUSE))
            self.clock.advance(PAUSE)
            await self.until_pulled(count)
        self.assertEqual([at for at, _ in self.pulls], [100, 101, 150, 150, 150, 150, 150])


class ScriptedSlave(ScriptedPulls):
    """Its master has a slave that refuses pulls with `code`."""

    def setUp(self):
        super().setUp()
        table = ProcessorTable()
        table.register(11, self.refuse)
        self.refused = []
        self.slave_factory = RemotingServerFactory(table, self.rig.clock)
        self.slave_port = self.rig.network.listenTCP(0, self.slave_factory, interface="127.0.0.1")

    @inlineCallbacks
    def stop(self):
        yield super().stop()
        yield self.slave_port.stopListening()
        for connection in list(self.slave_factory.connections):
            connection.abort()

    def addresses(self):
        return {0: self.address, 1: f"127.0.0.1:{self.slave_port.getHost().port}"}

    def refuse(self, connection, request):
        at = int(request.ext["queueOffset"])
        self.refused.append(at)
        ext = {"nextBeginOffset": str(at), "suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": "0"}
        return response(request, self.code, "not here", ext)


class TestASlaveThatCanNotServe(ScriptedSlave):
    """A master sends its readers to a slave."""

    suggestion = "1"

    async def refused_with(self, code):
        self.code = code
        await self.begin((SUCCESS, 101, record(100)), (SUCCESS, 102, record(101)))
        await self.rig.until(lambda: self.waits(ELSEWHERE_PAUSE))
        self.assertEqual((self.pulls, self.refused), ([(100, 100)], [101]))
        self.clock.advance(ELSEWHERE_PAUSE)
        await self.until_pulled(3)
        self.assertEqual(([at for at, _ in self.pulls], self.refused), ([100, 101, 102], [101]))

    @asynchronous
    async def test_B118_one_that_serves_no_reads_is_left_for_the_master(self):
        await self.refused_with(2)

    @asynchronous
    async def test_B118_one_that_has_not_heard_of_the_topic_is_left_for_the_master(self):
        await self.refused_with(17)

    @asynchronous
    async def test_B118_one_that_does_not_know_the_members_is_left_for_the_master(self):
        await self.refused_with(24)

    @asynchronous
    async def test_B118_B142_one_that_lacks_the_messages_is_left_for_the_master(self):
        await self.refused_with(RETRY)


class TestAMasterThatAnswersAgain(ScriptedSlave):
    """Neither broker could be reached, and the slave's pause ends before the master's, which serves by then."""

    code = 16

    def pull(self, connection, request):
        if not self.pulls:
            self.clock.advance(UNREACHABLE_PAUSE - 0.5)
        return super().pull(connection, request)

    @asynchronous
    async def test_B118_is_not_left_for_the_slave(self):
        """Which may have been master meanwhile, and have other messages at the same offsets."""
        routes, addresses = self.cluster.session.routes, self.addresses()
        routes.unreachable(addresses[1])
        self.clock.advance(1)
        routes.unreachable(addresses[0])
        await self.begin((SUCCESS, 101, record(100)))
        await self.rig.until(lambda: len(self.pulls) > 1 or self.refused)
        self.assertEqual(([at for at, _ in self.pulls], self.refused), ([100, 101], []))
