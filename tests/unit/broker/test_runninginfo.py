"""What tools ask consumers through the broker: 307, 309, 223."""

from twisted.internet.defer import inlineCallbacks
from twisted.trial.unittest import TestCase

from hatwisted.broker.admin.runninginfo import MAX_STATUS
from hatwisted.broker.consumer.clientcalls import STATUS_TIMEOUT
from hatwisted.wire import fastjson
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.messageid import encode_message_id
from tests.unit.broker.rig import HOST, BrokerRig, GroupMember

RUNNING = b'{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"commitOffset":3}},"properties":{}}'
STATUS = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}'


class QuestionCase(TestCase):
    @inlineCallbacks
    def setUp(self):
        self.rig = BrokerRig(self)
        self.member = yield GroupMember.connected(self.rig)
        yield self.member.beat()

    def ask(self, code, **more):
        return self.rig.ask(code, **{"consumerGroup": "g", "clientId": "c1"} | more)


class TestOneConsumer(QuestionCase):
    @inlineCallbacks
    def test_running_info_is_passed_on_and_back_unread(self):
        call = self.ask(307, jstackEnable="true")
        (question,) = yield self.member.asked()
        self.assertEqual((question.code, question.flag), (307, 0))
        self.assertEqual(question.ext, {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"})
        self.member.answer(question, body=RUNNING)
        answer = yield call
        self.assertEqual((answer.code, answer.body), (0, RUNNING))

    @inlineCallbacks
    def test_the_tools_signature_is_not_for_the_consumer(self):
        self.rig.put(body=b"again")
        message_id = encode_message_id(HostPort.unpack(HOST), 0)
        for code in (307, 309):
            call = self.ask(code, msgId=message_id, AccessKey="admin", Signature="abc=", SecurityToken="t")
            (question,) = yield self.member.asked()
            self.member.requests.clear()
            self.assertEqual(question.ext.keys() - {"brokerName"}, {"consumerGroup", "clientId", "msgId"})
            self.member.answer(question)
            self.assertEqual((yield call).code, 0)

    @inlineCallbacks
    def test_its_refusal_is_passed_back_too(self):
        call = self.ask(307)
        (question,) = yield self.member.asked()
        self.member.answer(question, code=3, remark="not I")
        answer = yield call
        self.assertEqual((answer.code, answer.remark), (3, "not I"))

    @inlineCallbacks
    def test_silence_is_reported_as_207(self):
        call = self.ask(307)
        yield self.member.asked()
        self.rig.clock.advance(10)
        answer = yield call
        self.assertEqual(answer.code, 207)
        self.assertTrue(answer.remark.startswith("consumer <g> <c1> Timeout: "))

    @inlineCallbacks
    def test_consumer_that_goes_is_reported_as_1(self):
        call = self.ask(307)
        yield self.member.asked()
        self.member.transport.loseConnection()
        answer = yield call
        self.assertEqual(answer.code, 1)
        self.assertTrue(answer.remark.startswith("invoke consumer <g> <c1> Exception: "))

    @inlineCallbacks
    def test_nobody_of_that_name(self):
        for ext in ({"clientId": "c2"}, {"consumerGroup": "h"}):
            answer = yield self.ask(307, **ext)
            self.assertEqual(answer.code, 1)
            self.assertIn("not online", answer.remark)
        answer = yield self.rig.ask(307, consumerGroup="g")
        self.assertEqual((answer.code, answer.remark), (1, "request field clientId is missing"))

    @inlineCallbacks
    def test_consumer_too_old_to_be_asked(self):
        yield self.member.beat(version=61)
        answer = yield self.ask(307)
        self.assertEqual(answer.code, 1)
        self.assertIn("too low", answer.remark)

    @inlineCallbacks
    def test_message_is_handed_over_to_be_consumed_directly(self):
        self.rig.put(body=b"again")
        message_id = encode_message_id(HostPort.unpack(HOST), 0)
        call = self.ask(309, msgId=message_id)
        (question,) = yield self.member.asked()
        wanted = {"consumerGroup": "g", "clientId": "c1", "msgId": message_id, "brokerName": "broker-a"}
        self.assertEqual((question.code, question.ext), (309, wanted))
        self.assertEqual(question.body, self.rig.store.look_message(0))
        result = b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":0}'
        self.member.answer(question, body=result)
        self.assertEqual((yield call).body, result)

    @inlineCallbacks
    def test_no_such_message(self):
        for message_id, remark in (
            ("xyz", "request field msgId has the value 'xyz'"),
            (encode_message_id(HostPort.unpack(HOST), 4711), "can not find message by the offset, 4711"),
        ):
            answer = yield self.ask(309, msgId=message_id)
            self.assertEqual((answer.code, answer.remark), (1, remark))


class TestStatus(QuestionCase):
    def status(self, **more):
        return self.rig.ask(223, **{"topic": "T", "group": "g"} | more)

    @inlineCallbacks
    def test_all_members_are_asked_at_once_and_the_silent_left_out(self):
        two = yield GroupMember.connected(self.rig)
        yield two.beat(client_id="c2")
        yield self.member.asked()
        self.member.requests.clear()
        call = self.status()
        (question,) = yield self.member.asked()
        yield two.asked()
        self.assertEqual((question.code, question.ext), (221, {"topic": "T", "group": "g"}))
        self.member.answer(question, body=STATUS)
        yield self.member.ask(28)
        self.rig.clock.advance(STATUS_TIMEOUT)
        answer = yield call
        queues = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'
        self.assertEqual(fastjson.loads(answer.body), {"consumerTable": {"c1": {queues: 7}}})

    @inlineCallbacks
    def test_one_member_by_name_and_unreadable_answers(self):
        self.assertEqual((yield self.status(clientAddr="c9")).body, b'{"consumerTable":{}}')
        long = STATUS + b" " * (MAX_STATUS + 1 - len(STATUS))
        for body in (b"", b"[", b"{}", b'{"messageQueueTable":{"T":1}}', long):
            call = self.status(clientAddr="c1")
            (question,) = yield self.member.asked()
            self.member.requests.clear()
            self.member.answer(question, body=body)
            answer = yield call
            self.assertEqual((answer.code, answer.body), (0, b'{"consumerTable":{}}'))

    @inlineCallbacks
    def test_nobody_online(self):
        answer = yield self.status(group="h")
        self.assertEqual(
            (answer.code, answer.remark), (1, "No Any Consumer online in the consumer group: [h]")
        )
