"""A group's offsets at the brokers: whom they are asked of and told, and what a failure costs the others."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.errors import BadAnswer, CallTimedOut, ConnectFailed, NoRoute, Refused
from hatwisted.clientcore.offsets import BrokerOffsets, broker_address
from hatwisted.clientcore.tasks import Task
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, Groups, ScriptedDriver

A, SLAVE_OF_A, B = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
QUERY, UPDATE, QUERY_NOT_FOUND = 14, 15, 22


def queue(broker: str, number: int = 0) -> MessageQueue:
    return MessageQueue(broker_name=broker, queue_id=number, topic="T")


class OffsetTests(SynchronousTestCase):
    def start(self, groups: Groups | None = None) -> None:
        self.answers: dict[str, RemotingCommand | Exception] = {}
        self.driver = ScriptedDriver(groups or {"a": {0: A, 1: SLAVE_OF_A}, "b": {0: B}}, self.answer)
        self.session = ClusterLink(self.driver, NAME_SERVER, "me").session
        Task(self.session.routes.route("T")).result()
        self.offsets = BrokerOffsets(self.session, "g")

    def answer(self, address: str, request: RemotingCommand) -> RemotingCommand:
        answer = self.answers.get(address, RemotingCommand(0, flag=1, ext={"offset": "5"}))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read(self, broker: str) -> int | None:
        return Task(self.offsets.read(queue(broker))).result()

    def told(self) -> list[tuple[str, str, str]]:
        found = [(each.address, each.request.ext) for each in self.driver.asked(UPDATE)]
        self.assertEqual({(ext["consumerGroup"], ext["topic"]) for _, ext in found}, {("g", "T")})
        return [(address, ext["queueId"], ext["commitOffset"]) for address, ext in found]

    def test_none_is_a_masters_word_alone(self) -> None:
        self.start()
        self.assertEqual(self.read("a"), 5)
        unknown = RemotingCommand(QUERY_NOT_FOUND, flag=1)
        self.answers = {A: unknown, SLAVE_OF_A: unknown}
        self.assertIsNone(self.read("a"))
        self.session.routes.unreachable(A)
        error = self.assertRaises(NoRoute, self.read, "a")
        self.assertEqual(str(error), "topic T: a has no master now to say where to begin")
        self.answers = {}
        self.assertEqual(self.read("a"), 5, "what a slave knows is known")

    def test_any_other_answer_is_no_answer(self) -> None:
        self.start()
        self.answers = {A: RemotingCommand(1, flag=1, remark="planned")}
        refused = self.assertRaises(Refused, self.read, "a")
        self.assertEqual((refused.address, refused.remark), (A, "planned"))
        self.answers = {A: RemotingCommand(0, flag=1)}
        self.assertRaises(BadAnswer, self.read, "a")
        error = self.assertRaises(NoRoute, self.read, "c")
        self.assertEqual(str(error), "topic T: no broker named c is known now")

    def test_a_wished_id_or_else_the_master(self) -> None:
        self.start()
        self.assertEqual(broker_address(self.session, queue("a")), A)
        self.assertEqual(broker_address(self.session, queue("a"), 1), SLAVE_OF_A)

    def test_each_queue_is_told_to_its_broker(self) -> None:
        self.start()
        table = {queue("a", 0): 1, queue("b", 0): 2, queue("a", 1): 3}
        self.assertEqual(Task(self.offsets.write(table)).result(), [])
        self.assertEqual(self.told(), [(A, "0", "1"), (A, "1", "3"), (B, "0", "2")])

    def test_a_slave_keeps_it_for_a_master_that_has_just_gone(self) -> None:
        self.start()
        self.answers = {A: ConnectFailed(A, "refused"), B: ConnectFailed(B, "refused")}
        failed = Task(self.offsets.write({queue("a"): 1, queue("b"): 2})).result()
        self.assertEqual([str(each) for each in failed], [f"{B}: refused"], "nobody else has b's")
        self.assertEqual(self.told(), [(A, "0", "1"), (SLAVE_OF_A, "0", "1"), (B, "0", "2")])

    def test_a_refusal_costs_its_queue_and_silence_the_brokers_others(self) -> None:
        for error, count in ((RemotingCommand(1, flag=1), 3), (CallTimedOut(A, "late"), 1)):
            self.start()
            self.answers = {A: error}
            table = {queue("a", number): 1 for number in range(3)} | {queue("b"): 2}
            failed = Task(self.offsets.write(table)).result()
            self.assertEqual(len(failed), count)
            self.assertEqual(len(self.told()), count + 1)
