"""What a broker asks of producers and is asked by consumers, seen from a remoting server that notes it all."""

from twisted.internet.defer import inlineCallbacks, succeed
from twisted.trial.unittest import TestCase

from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import deferred
from hatwisted.clientcore.errors import ClientError, Refused, SendFailed
from hatwisted.clientcore.message import Message, received
from hatwisted.clientcore.sendback import SendBack
from hatwisted.clientcore.transactions import TransactionState
from hatwisted.remoting.processortable import ProcessorTable, response
from hatwisted.remoting.serverfactory import RemotingServerFactory
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.properties import decode_properties, encode_properties
from hatwisted.wire.record import encode_record
from hatwisted.wire.registration import BrokerData, QueueData, TopicRoute, encode_body
from hatwisted.wire.remoting import RemotingCommand, SendCommand, encode_command
from hatwisted.wire.storedrecord import Record, crc
from tests.support.clusterrig import MemoryRig, asynchronous

HOST = HostPort(b"\x7f\0\0\x01", 10911)
OFFSET_ID = "7F00000100002A9F000000000000002A"


def a_record(body=b"x", **properties):
    raw = encode_properties({"UNIQ_KEY": "U1", **properties})
    return Record(
        "T", 3, 0, 0, 7, 42, 1, HOST, 2, HOST, 2, 0, body, raw, crc(body), 91 + len(body) + 1 + len(raw)
    )


class ScriptedBroker:
    """Name server and master in one. `codes`: what sends and send-backs (36) are answered, in turn, then 0."""

    def __init__(self, case):
        self.requests, self.connections, self.codes = [], [], {}
        table = ProcessorTable()
        table.register(105, self.route)
        for code in (34, 35, 36, 37, 310):
            table.register(code, self.note)
        self.rig = rig = MemoryRig(case)
        self.factory = RemotingServerFactory(table, rig.clock)
        self.port = rig.network.listenTCP(0, self.factory, interface="127.0.0.1")
        self.address = f"127.0.0.1:{self.port.getHost().port}"
        self.cluster = Cluster(rig.clock, self.address, connecting=rig.network)
        self.until = rig.until
        rig.add_cleanup(self.stop)

    @inlineCallbacks
    def stop(self):
        yield self.cluster.close()
        yield self.port.stopListening()
        for connection in list(self.factory.connections):
            connection.abort()

    def route(self, connection, request):
        data = BrokerData(broker_addrs={0: self.address}, broker_name="b", cluster="C")
        queues = QueueData(broker_name="b", perm=6, read_queue_nums=4, write_queue_nums=4)
        return response(request, 0, body=encode_body(TopicRoute(broker_datas=[data], queue_datas=[queues])))

    def note(self, connection, request):
        self.requests.append(request)
        self.connections.append(connection)
        planned = self.codes.get(request.code)
        code = planned.pop(0) if planned else 0
        return response(request, code, "planned", {"msgId": OFFSET_ID, "queueId": "3", "queueOffset": "9"})

    def asked(self, code):
        return [request for request in self.requests if request.code == code]


def send_fields(request):
    """(sysFlag, properties) of a send, however the server decoded them."""
    if isinstance(request, SendCommand):
        return request.header.sys_flag, decode_properties(bytes(request.header.properties, "utf-8"))
    return int(request.ext["f"]), decode_properties(request.ext["i"].encode())


class TestTransactions(TestCase):
    timeout = 50

    def setUp(self):
        self.broker = ScriptedBroker(self)
        self.rig = self.broker.rig

    @asynchronous
    async def test_half_message_then_the_works_outcome(self):
        asked = []
        producer = self.broker.cluster.transaction_producer("g", asked.append)
        for state, code in ((TransactionState.COMMIT, "8"), (TransactionState.ROLLBACK, "12")):
            self.broker.requests.clear()
            result, decided = await producer.send_in_transaction(
                Message(topic="T", body=b"x"), lambda message, state=state: state
            )
            await self.broker.until(lambda: self.broker.asked(37))
            sys_flag, properties = send_fields(self.broker.asked(310)[0])
            self.assertEqual((sys_flag, properties["TRAN_MSG"], properties["PGROUP"]), (4, "true", "g"))
            end = self.broker.asked(37)[0]
            self.assertTrue(end.is_oneway)
            self.assertEqual((decided, end.ext["commitOrRollback"]), (state, code))
            self.assertEqual((end.ext["tranStateTableOffset"], end.ext["commitLogOffset"]), ("9", "42"))
            self.assertEqual((end.ext["msgId"], end.ext["producerGroup"]), (result.message_id, "g"))

    @asynchronous
    async def test_work_may_take_its_time(self):
        producer = self.broker.cluster.transaction_producer("g", lambda message: None)
        _, decided = await producer.send_in_transaction(
            Message(topic="T", body=b"x"), lambda message: succeed(TransactionState.ROLLBACK)
        )
        self.assertIs(decided, TransactionState.ROLLBACK)

    @asynchronous
    async def test_a_half_message_that_isnt_safe_is_rolled_back_without_the_work(self):
        self.broker.codes[310] = [11]
        done = []
        producer = self.broker.cluster.transaction_producer("g", done.append)
        await producer.send_in_transaction(Message(topic="T", body=b"x"), done.append)
        await self.broker.until(lambda: self.broker.asked(37))
        self.assertEqual((done, self.broker.asked(37)[0].ext["commitOrRollback"]), ([], "12"))

    @asynchronous
    async def test_the_brokers_question_is_answered_for_ones_own_group(self):
        def check(message):
            self.assertEqual((message.body, message.message_id), (b"x", "U1"))
            return TransactionState.COMMIT

        producer = self.broker.cluster.transaction_producer("g", check)
        _, state = await producer.send_in_transaction(
            Message(topic="T", body=b"x"), lambda message: TransactionState.UNKNOWN
        )
        self.assertEqual((state, self.broker.asked(37)), (TransactionState.UNKNOWN, []))
        for group in ("other", "g"):
            ext = {"tranStateTableOffset": "11", "commitLogOffset": "42", "transactionId": "U1"}
            body = encode_record(a_record(PGROUP=group))
            question = RemotingCommand(39, flag=2, ext=ext, body=body)
            self.broker.connections[-1].send(encode_command(question))
        await self.broker.until(lambda: self.broker.asked(37))
        (end,) = self.broker.asked(37)
        self.assertEqual((end.ext["commitOrRollback"], end.ext["fromTransactionCheck"]), ("8", "true"))
        self.assertEqual((end.ext["tranStateTableOffset"], end.ext["msgId"]), ("11", "U1"))


class TestRetries(TestCase):
    timeout = 50

    def setUp(self):
        self.broker = ScriptedBroker(self)
        self.rig = self.broker.rig

    @asynchronous
    async def test_codes_that_another_try_may_mend_are_tried_again_others_not(self):
        producer = self.broker.cluster.producer("g")
        self.broker.codes[310] = [1, 14]
        await producer.send(Message(topic="T", body=b""))
        self.assertEqual(len(self.broker.asked(310)), 3)
        self.broker.codes[310] = [2, 16, 17]
        failed = await self.assertFailure(producer.send(Message(topic="T", body=b"")), SendFailed)
        self.assertEqual([each.code for each in failed.attempts], [2, 16, 17])
        self.broker.codes[310] = [13]
        refused = await self.assertFailure(producer.send(Message(topic="T", body=b"")), Refused)
        self.assertEqual(
            (refused.code, refused.remark, refused.address), (13, "planned", self.broker.address)
        )

    @asynchronous
    async def test_a_failed_message_goes_back_and_a_copy_of_it_if_the_broker_wont_have_it(self):
        cluster = self.broker.cluster
        await deferred(cluster.session.routes.route("T"))
        back = SendBack(cluster.session, "g", lambda: cluster.producer("copies")._core)
        message = received(a_record(color="red"), "b")
        await deferred(back.send_back(message, ValueError("bad")))
        (sent,) = self.broker.asked(36)
        self.assertEqual((sent.ext["offset"], sent.ext["group"], sent.ext["delayLevel"]), ("42", "g", "0"))
        self.assertEqual((sent.ext["originTopic"], sent.ext["maxReconsumeTimes"]), ("T", "16"))
        self.assertEqual(self.broker.asked(310), [])
        self.broker.codes[36] = [1]
        await deferred(back.send_back(message, ValueError("bad")))
        (copy,) = self.broker.asked(310)
        _, properties = send_fields(copy)
        self.assertEqual((properties["RETRY_TOPIC"], properties["DELAY"]), ("T", "5"))
        self.assertEqual((properties["UNIQ_KEY"], properties["color"]), ("U1", "red"))
        self.assertEqual(copy.body, b"x")
        self.flushLoggedErrors(ValueError)

    @asynchronous
    async def test_a_stop_ends_the_pause_between_two_offers(self):
        cluster = self.broker.cluster
        await deferred(cluster.session.routes.route("T"))
        back = SendBack(cluster.session, "g", lambda: cluster.producer("copies", retries=0)._core)
        self.broker.codes[36] = self.broker.codes[310] = [1, 1]
        begun = self.rig.clock.seconds()
        offered = deferred(back.send_back(received(a_record(), "b"), ValueError("bad")))
        await self.rig.until(lambda: back._pauses)
        back.stop()
        await self.assertFailure(offered, ClientError)
        self.assertLess(self.rig.clock.seconds() - begun, 1.0)
        self.flushLoggedErrors(ValueError)
