"""B116: how often, how long and where a producer tries, on a scripted cluster and its clock."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.errors import BadMessage, BadSetting, CallTimedOut, Refused, SendFailed
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.options import ProducerOptions
from hatwisted.clientcore.sending import SendStatus
from hatwisted.clientcore.tasks import Task
from hatwisted.wire.codes import ResponseCode
from hatwisted.wire.remoting import RemotingCommand
from tests.unit.client.scripteddriver import NAMES, ScriptedDriver, gone, stored


class TestTries(SynchronousTestCase):
    def producing(self, brokers="abc", **options):
        self.driver = ScriptedDriver(brokers)
        link = ClusterLink(self.driver, NAMES, "me")
        return link.producer("g", ProducerOptions(**options))

    def send(self, producer, **more):
        return Task(producer.send(Message(topic="T", body=b"x", **more)))

    def test_b116_three_tries_each_on_another_broker(self):
        producer = self.producing()
        for name in "abc":
            self.driver.outcomes[f"{name}:1"] = [gone(f"{name}:1")]
        error = self.failed(self.send(producer), SendFailed)
        self.assertEqual((self.driver.asked_of(), len(error.attempts)), ("abc", 3))

    def failed(self, task, kind):
        with self.assertRaises(kind) as caught:
            task.result()
        return caught.exception

    def test_b116_all_tries_share_one_limit_of_time(self):
        producer = self.producing(timeout=3.0, limit=3.0)
        self.driver.outcomes = {f"{name}:1": [None] for name in "abc"}
        task = self.send(producer)
        for spent in (1.0, 1.5):
            self.driver.clock.advance(spent)
            self.driver.pending[-1].fail(CallTimedOut("x:1", "no answer"))
        self.assertEqual([timeout for _, _, timeout in self.driver.calls], [3.0, 2.0, 0.5])
        self.driver.clock.advance(0.5)
        self.driver.pending[-1].fail(CallTimedOut("x:1", "no answer"))
        self.failed(task, SendFailed)

    def test_b116_when_the_limit_is_over_there_is_no_further_try(self):
        producer = self.producing(timeout=3.0, limit=3.0)
        self.driver.outcomes = {"a:1": [None]}
        task = self.send(producer)
        self.driver.clock.advance(3.0)
        self.driver.pending[0].fail(CallTimedOut("a:1", "no answer"))
        self.assertEqual(len(self.failed(task, SendFailed).attempts), 1)
        self.assertEqual(self.driver.asked_of(), "a")

    def test_without_a_limit_each_try_has_its_timeout(self):
        producer = self.producing(timeout=3.0)
        self.driver.outcomes = {f"{name}:1": [None] for name in "abc"}
        task = self.send(producer)
        for _ in range(3):
            self.driver.clock.advance(3.0)
            self.driver.pending[-1].fail(CallTimedOut("x:1", "no answer"))
        self.assertEqual([timeout for _, _, timeout in self.driver.calls], [3.0] * 3)
        self.failed(task, SendFailed)

    def test_b116_stored_with_less_than_ok_is_returned_and_not_tried_again(self):
        for code in (10, 11, 12):
            producer = self.producing()
            self.driver.outcomes["a:1"] = [stored(code)]
            self.assertEqual(self.send(producer).result().status.value, code)
            self.assertEqual(self.driver.asked_of(), "a")

    def test_b116_retry_not_stored_ok_tries_elsewhere_and_takes_what_is_best(self):
        producer = self.producing(retry_not_stored_ok=True)
        self.driver.outcomes = {"a:1": [stored(ResponseCode.FLUSH_DISK_TIMEOUT)]}
        result = self.send(producer).result()
        self.assertEqual((result.status, result.address), (SendStatus.OK, "b:1"))
        self.assertEqual(self.driver.asked_of(), "ab")

    def test_b116_retry_not_stored_ok_and_nobody_says_ok_gives_the_last_that_stored_it(self):
        producer = self.producing("ab", retry_not_stored_ok=True, retries=1)
        self.driver.outcomes = {"a:1": [stored(11)], "b:1": [gone("b:1")]}
        self.assertEqual(self.send(producer).result().status, SendStatus.SLAVE_NOT_AVAILABLE)
        self.assertEqual(self.driver.asked_of(), "ab")

    def test_an_answer_that_no_other_broker_would_give_differently_ends_it(self):
        producer = self.producing()
        self.driver.outcomes["a:1"] = [RemotingCommand(ResponseCode.MESSAGE_ILLEGAL, remark="no")]
        self.assertEqual(self.failed(self.send(producer), Refused).code, 13)
        self.assertEqual(self.driver.asked_of(), "a")

    def test_a_message_of_an_order_key_is_tried_once(self):
        producer = self.producing("a")
        self.driver.outcomes["a:1"] = [gone("a:1")] * 3
        self.failed(self.send(producer, order_key="k"), SendFailed)
        self.assertEqual(self.driver.asked_of(), "a")

    def test_a_body_that_is_no_bytes_is_the_callers_mistake(self):
        for options in ({}, {"coalesce": True}):
            producer = self.producing(**options)
            text = Message(topic="T", body="text")
            for work in (producer.send(text), producer.send_batch([text])):
                error = self.failed(Task(work), BadMessage)
                self.assertEqual(
                    str(error), "a body is bytes, and this one is a str: encode it, as text.encode()"
                )
        self.assertEqual(self.driver.calls, [])

    def test_settings_that_cannot_be_meant(self):
        for options in ({"timeout": 0}, {"retries": -1}, {"max_in_flight": 0}):
            self.assertRaises(BadSetting, ProducerOptions, **options)
        self.assertRaises(BadSetting, ClusterLink, ScriptedDriver(), "no address")
        self.assertRaises(BadSetting, ClusterLink, ScriptedDriver(), "")
