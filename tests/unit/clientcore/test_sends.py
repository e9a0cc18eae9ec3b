"""Where sends go, how often they are tried, and what their answers mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.errors import BadMessage, BadSetting, ConnectFailed, Refused, SendFailed
from hatwisted.clientcore.message import Message
from hatwisted.clientcore.options import ProducerOptions
from hatwisted.clientcore.tasks import Task
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, Groups, ScriptedDriver, stored

A, B, SLAVE_OF_A = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
TWO_MASTERS: Groups = {"a": {0: A, 1: SLAVE_OF_A}, "b": {0: B}}
SEND = 310


class SendCase(SynchronousTestCase):
    def start(
        self,
        groups: Groups,
        answer: Callable[[str, RemotingCommand], RemotingCommand | None],
        **options: Any,
    ) -> None:
        self.driver = ScriptedDriver(groups, self.of_sends(answer))
        self.link = ClusterLink(self.driver, NAME_SERVER, "client")
        self.producer = self.link.producer("g", ProducerOptions(**options))

    def of_sends(
        self, answer: Callable[[str, RemotingCommand], RemotingCommand | None]
    ) -> Callable[[str, RemotingCommand], RemotingCommand | None]:
        """Heartbeats and other calls are answered with success."""

        def answered(address: str, request: RemotingCommand) -> RemotingCommand | None:
            return answer(address, request) if request.code == SEND else RemotingCommand(0, flag=1)

        return answered

    def send(self) -> Task[Any]:
        return Task(self.producer.send(Message(topic="T", body=b"x")))

    def tried(self) -> list[str]:
        """Addresses that a send went to, in order."""
        return [address for _, address in self.driver.calls_of(SEND)]


class WhereTests(SendCase):
    def test_B115_all_masters_share_evenly_and_slaves_get_nothing(self) -> None:
        self.start(TWO_MASTERS, lambda address, request: stored())
        for _ in range(16):
            self.send().result()
        self.assertEqual(Counter(self.tried()), {A: 8, B: 8})

    def test_B115_a_group_without_id_0_is_left_out(self) -> None:
        self.start({"a": {1: SLAVE_OF_A}, "b": {0: B}}, lambda address, request: stored())
        self.assertEqual({queue.broker_name for queue in Task(self.producer.queues("T")).result()}, {"b"})
        for _ in range(8):
            self.send().result()
        self.assertEqual(self.tried(), [B] * 8)
        self.assertFalse(self.producer.faults.avoided("a", self.driver.seconds()), "it was never tried")

    def test_B116_three_tries_each_at_another_broker_than_the_last_ones(self) -> None:
        self.start(TWO_MASTERS | {"c": {0: "c:1"}}, lambda address, request: RemotingCommand(14, flag=1))
        failed = self.send()
        self.assertRaises(SendFailed, failed.result)
        self.assertEqual((len(self.tried()), len(set(self.tried()))), (3, 3))

    def test_B116_a_broker_that_is_avoided_is_tried_rather_than_the_same_again(self) -> None:
        refused = RemotingCommand(14, flag=1)
        answers = iter((refused, stored(), refused, stored()))
        self.start(TWO_MASTERS, lambda address, request: next(answers))
        for _ in range(2):
            self.send().result()
        one, other = self.tried()[:2]
        self.assertEqual(self.tried(), [one, other, other, one])

    def test_B116_one_dead_master_costs_a_try_and_no_send(self) -> None:
        def answer(address: str, request: RemotingCommand) -> RemotingCommand:
            if address == A:
                raise ConnectFailed(address, "refused")
            return stored()

        self.start(TWO_MASTERS, answer)
        results = [self.send().result() for _ in range(8)]
        self.assertEqual({result.address for result in results}, {B})
        self.assertEqual(self.tried().count(A), 1, "then it is avoided")

    def test_B116_tries_share_one_limit_of_time(self) -> None:
        self.start(TWO_MASTERS, lambda address, request: None, limit=6.0, timeout=4.0)
        sent = self.send()
        self.driver.pass_time(5.75)
        self.assertEqual(
            (sent.done, len(self.tried())), (False, 2), "4 s for the first, what is left for the second"
        )
        self.driver.pass_time(0.5)
        self.assertRaises(SendFailed, sent.result)

    def test_without_a_limit_each_try_has_its_timeout(self) -> None:
        self.start(TWO_MASTERS, lambda address, request: None, timeout=2.0)
        sent = self.send()
        self.driver.pass_time(5.75)
        self.assertEqual((sent.done, len(self.tried())), (False, 3))
        self.driver.pass_time(0.5)
        self.assertRaises(SendFailed, sent.result)

    def test_a_message_of_an_order_key_is_tried_once(self) -> None:
        self.start(TWO_MASTERS, lambda address, request: RemotingCommand(14, flag=1))
        sent = Task(self.producer.send(Message(topic="T", body=b"x", order_key="k")))
        self.assertRaises(SendFailed, sent.result)
        self.assertEqual(len(self.tried()), 1)

    def test_what_the_caller_gets_wrong_is_reported_before_anything_is_sent(self) -> None:
        text = Message(topic="T", body="text")  # type: ignore[arg-type]
        for coalesce in (False, True):
            self.start(TWO_MASTERS, lambda address, request: stored(), coalesce=coalesce)
            for work in (Task(self.producer.send(text)), Task(self.producer.send_batch([text]))):
                error = self.assertRaises(BadMessage, work.result)
                told = "a body must be bytes, not str: encode it, as text.encode()"
                self.assertEqual(str(error), told)
        self.assertEqual(self.tried(), [])
        self.assertRaises(BadSetting, ClusterLink, self.driver, "no address")
        self.assertRaises(BadSetting, ClusterLink, self.driver, "")
        for timeout, retries in ((0, 2), (1, -1)):
            self.assertRaises(BadSetting, ProducerOptions, timeout=timeout, retries=retries)


class AnswerTests(SendCase):
    def test_B117_four_codes_are_stored_each_with_its_own_status(self) -> None:
        names = {0: "OK", 10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT"}
        for code, name in names.items():
            self.start(TWO_MASTERS, lambda address, request, code=code: stored(code))
            self.assertEqual(self.send().result().status.name, name)

    def test_B116_stored_with_less_than_ok_is_returned_and_not_sent_again(self) -> None:
        for code in (10, 11, 12):
            self.start(TWO_MASTERS, lambda address, request, code=code: stored(code))
            self.send().result()
            self.assertEqual(len(self.tried()), 1)

    def test_B116_retry_not_stored_ok_goes_elsewhere_for_an_ok(self) -> None:
        codes = iter((10, 0))
        self.start(TWO_MASTERS, lambda address, request: stored(next(codes)), retry_not_stored_ok=True)
        self.assertEqual(self.send().result().status.name, "OK")
        self.assertEqual(len(set(self.tried())), 2)

    def test_B116_retry_not_stored_ok_and_no_ok_gives_the_last_that_stored_it(self) -> None:
        answers = iter((stored(11), RemotingCommand(14, flag=1), RemotingCommand(14, flag=1)))
        self.start(TWO_MASTERS, lambda address, request: next(answers), retry_not_stored_ok=True)
        self.assertEqual(self.send().result().status.name, "SLAVE_NOT_AVAILABLE")
        self.assertEqual(len(self.tried()), 3)

    def test_B117_a_message_refused_as_such_is_an_error_at_once(self) -> None:
        for code in (13, 26):
            self.start(TWO_MASTERS, lambda address, request, code=code: RemotingCommand(code, flag=1))
            failed = self.assertRaises(Refused, self.send().result)
            self.assertEqual((failed.code, len(self.tried())), (code, 1))

    def test_B156_by_default_a_brokers_5_s_wait_for_its_slave_is_seen_to_its_end(self) -> None:
        self.start({"a": {0: A}}, lambda address, request: None)
        answers: list[Any] = []
        call = self.driver.call

        def held(address: str, request: RemotingCommand, timeout: float) -> Any:
            waiter = call(address, request, timeout)
            if request.code == SEND:
                answers.append(waiter)
            return waiter

        self.patch(self.driver, "call", held)
        sent = self.send()
        self.driver.pass_time(5)
        self.assertEqual((len(answers), sent.done), (1, False), "not tried again while the broker waits")
        answers[0].fire(stored(12))
        self.assertEqual(sent.result().status.name, "FLUSH_SLAVE_TIMEOUT")
