"""A producer on a clock of the test's: which queues it sends to, what shares a request, what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.accumulator import TOPIC_REQUESTS
from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.errors import (
    BadMessage,
    BadTransactionState,
    CallTimedOut,
    Closed,
    NoRoute,
    ProducerFull,
    Refused,
    SendFailed,
    TooManyCalls,
)
from hatwisted.clientcore.message import Message, ReceivedMessage
from hatwisted.clientcore.options import ProducerOptions
from hatwisted.clientcore.producer import MAKING_TIME
from hatwisted.clientcore.sending import batch_share
from hatwisted.clientcore.tasks import Cancelled, Task, Waiter, Work
from hatwisted.clientcore.transactions import TransactionProducer, TransactionState
from hatwisted.wire.batch import decode_batch
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.properties import decode_properties, encode_properties
from hatwisted.wire.record import encode_record, make_record
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, OFFSET_ID, Groups, ScriptedDriver, stored

A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
BOTH: Groups = {"b": {0: B}, "a": {0: A}}
SEND, BATCH = 310, 320


class HeldDriver(ScriptedDriver):
    """Sends are answered when the test says so, in their order: `held`."""

    def __init__(self, groups: Groups) -> None:
        super().__init__(groups, lambda address, request: RemotingCommand(0, flag=1))
        self.held: list[Waiter[RemotingCommand]] = []
        self.holding = True
        self.deaf = False
        """The name server."""

    def call(self, address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
        if self.deaf and request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            failed: Waiter[RemotingCommand] = Waiter()
            failed.fail(CallTimedOut(address, "deaf"))
            return failed
        if request.code not in (SEND, BATCH) or not self.holding:
            return super().call(address, request, timeout)
        self._note(address, request, timeout)
        self.held.append(Waiter())
        return self.held[-1]


class ProducerCase(SynchronousTestCase):
    def start(self, groups: Groups = BOTH, **options: Any) -> None:
        self.driver = HeldDriver(groups)
        self.link = ClusterLink(self.driver, NAME_SERVER, "me")
        self.producer = self.link.producer("g", ProducerOptions(**options))

    def send(self, body: bytes = b"x", **more: Any) -> Task[Any]:
        return Task(self.producer.send(Message(topic="T", body=body, **more)))

    def done(self, work: Work[Any]) -> Any:
        return Task(work).result()

    def queues(self) -> list[tuple[str, int]]:
        found = self.done(self.producer.queues("T"))
        return [(each.broker_name, each.queue_id) for each in found]

    def sent_to(self) -> list[str]:
        return [each.address for each in self.driver.requests if each.request.code in (SEND, BATCH)]

    def routes_asked(self) -> list[str]:
        return [each.request.ext["topic"] for each in self.driver.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)]


class QueueTests(ProducerCase):
    def test_all_first_queues_then_all_second_ones(self) -> None:
        self.start()
        self.assertEqual(self.queues(), [("a", 0), ("b", 0), ("a", 1), ("b", 1)])
        self.queues()
        self.assertEqual(self.routes_asked(), ["T"])

    def test_a_topic_that_isnt_there_gets_four_queues_on_each_broker(self) -> None:
        self.start()
        self.driver.queues = 8
        self.driver.unknown = {"T"}
        self.assertEqual(self.queues(), [(name, number) for number in range(4) for name in "ab"])
        self.assertEqual(self.routes_asked(), ["T", "TBW102"])

    def test_while_a_topic_is_made_its_sent_to_brokers_that_dont_have_it_yet(self) -> None:
        self.start()
        self.driver.unknown = {"T"}
        self.queues()
        self.driver.unknown = set()
        self.driver.groups = {"a": {0: A}}
        both = [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
        self.assertEqual(self.queues(), both)
        self.driver.clock.advance(MAKING_TIME - 0.1)
        self.assertEqual(self.queues(), both)
        self.driver.clock.advance(0.1)
        self.assertEqual(self.queues(), [("a", 0), ("a", 1)])

    def test_no_route_says_why(self) -> None:
        self.start()
        self.driver.unknown = {"T", "TBW102"}
        error = self.assertRaises(NoRoute, self.queues)
        why = "the name servers don't know it, and no broker creates topics automatically"
        self.assertEqual(str(error), f"topic T: {why}")

    def test_without_a_master_the_route_is_asked_for_again_and_forgotten(self) -> None:
        self.start({"a": {1: A}})
        error = self.assertRaises(NoRoute, self.queues)
        self.assertEqual(str(error), "topic T: no master accepts messages for it now")
        self.assertEqual(self.routes_asked(), ["T", "T"])
        self.assertEqual(self.link.session.routes.known_topics, [])
        self.driver.groups = {"a": {0: A}}
        self.assertEqual(self.queues(), [("a", 0), ("a", 1)])

    def test_a_master_that_came_back_is_found_at_once(self) -> None:
        self.start({"a": {1: A}})
        Task(self.link.session.routes.route("T")).result()
        self.driver.groups = {"a": {0: A}}
        self.assertEqual(self.queues(), [("a", 0), ("a", 1)])

    def test_a_send_may_say_where(self) -> None:
        self.start()
        there = MessageQueue(broker_name="b", queue_id=1, topic="T")
        sent = Task(self.producer.send(Message(topic="T", body=b"x"), queue=there))
        (asked,) = self.driver.asked(SEND)
        self.assertEqual((asked.address, asked.request.ext["e"], asked.request.ext["n"]), (B, "1", "b"))
        self.driver.held[0].fire(RemotingCommand(14, flag=1))
        self.assertRaises(SendFailed, sent.result)
        self.assertEqual(self.routes_asked(), ["T", "T"], "where is it now? For the next one")
        gone = MessageQueue(broker_name="c", queue_id=0, topic="T")
        failed = Task(self.producer.send(Message(topic="T", body=b"x"), queue=gone))
        error = self.assertRaises(SendFailed, failed.result)
        self.assertIn("topic T: c has no master now", str(error))


class TryTests(ProducerCase):
    def test_a_second_try_knows_the_route_of_now(self) -> None:
        self.start({"a": {0: A}})
        sent = self.send()
        self.driver.groups = {"c": {0: C}}
        self.driver.held[0].fire(RemotingCommand(14, flag=1))
        self.driver.held[1].fire(stored())
        result = sent.result()
        self.assertEqual((self.sent_to(), self.routes_asked()), ([A, C], ["T", "T"]))
        placed = MessageQueue(broker_name="c", queue_id=0, topic="T")
        self.assertEqual((result.queue, result.queue_offset, result.offset_id), (placed, 9, OFFSET_ID))
        self.assertEqual(result.address, C)

    def test_a_second_try_goes_on_with_what_is_known_where_nobody_can_be_asked(self) -> None:
        self.start()
        sent = self.send()
        self.driver.deaf = True
        self.driver.held[0].fire(RemotingCommand(14, flag=1))
        self.driver.held[1].fire(stored())
        self.assertEqual((sent.result().address, self.sent_to()), (B, [A, B]))

    def test_a_slow_broker_gets_the_next_message_only_if_all_are(self) -> None:
        self.start()
        self.send()
        self.driver.clock.advance(1.0)
        self.driver.held[0].fire(stored())
        self.driver.holding = False
        self.driver.answer = lambda address, request: stored()
        for _ in range(4):
            self.send().result()
        self.assertEqual(self.sent_to(), [A] + [B] * 4)
        self.driver.clock.advance(60)
        self.send()
        self.send()
        self.assertEqual(set(self.sent_to()[5:]), {A, B})

    def test_ordered_messages_share_a_queue_by_javas_hash_of_their_key(self) -> None:
        self.start()
        self.driver.holding = False
        self.driver.answer = lambda address, request: stored()
        for key in ("a", "b", "c", "d", "polygenelubricants"):
            self.send(order_key=key)
        places = [(each.request.ext["n"], each.request.ext["e"]) for each in self.driver.asked(SEND)]
        # 97, 98, 99, 100 and -2^31, over the four queues
        order = [("a", "0"), ("b", "0"), ("a", "1"), ("b", "1")]
        self.assertEqual(places, [order[n] for n in (1, 2, 3, 0, 0)])


class WaitTests(ProducerCase):
    def test_oneway_is_sent_and_forgotten(self) -> None:
        self.start()
        self.driver.clock.advance(5)
        self.done(self.producer.send_oneway(Message(topic="T", body=b"x", tags="red")))
        (asked,) = self.driver.asked(SEND)
        self.assertEqual((asked.address, asked.timeout, asked.request.body), (A, None, b"x"))
        ext = asked.request.ext
        self.assertEqual((ext["a"], ext["b"], ext["e"], ext["g"]), ("g", "T", "0", "5000"))
        self.assertEqual(decode_properties(ext["i"].encode())["TAGS"], "red")

    def test_settled_comes_with_the_last_result(self) -> None:
        self.start()
        self.done(self.producer.settled())
        sends = [self.send(), self.send()]
        settled = Task(self.producer.settled())
        self.driver.held[0].fire(stored())
        self.driver.clock.advance(1)
        self.assertEqual((sends[0].done, settled.done), (True, False))
        self.driver.held[1].fire(stored())
        self.assertEqual((sends[1].done, settled.done), (True, False), "a turn later")
        self.driver.clock.advance(0)
        self.assertTrue(settled.done)
        self.done(self.producer.settled())

    def test_the_window_is_of_requests_and_ready_waits_for_it(self) -> None:
        self.start(max_in_flight=1)
        first, second = self.send(b"1"), self.send(b"2")
        ready = Task(self.producer.ready())
        self.assertEqual(len(self.driver.held), 1)
        self.driver.held[0].fire(stored())
        self.assertEqual(
            (first.done, second.done, ready.done, len(self.driver.held)), (True, False, False, 2)
        )
        self.driver.held[1].fire(stored())
        self.assertEqual((second.done, ready.done), (True, True))

    def test_a_stop_sends_what_is_under_way_and_refuses_the_rest(self) -> None:
        self.start(max_in_flight=1)
        under_way, waiting = self.send(), self.send()
        stopping = Task(self.producer.stop())
        self.assertRaises(Closed, waiting.result)
        for work in (
            self.producer.send(Message(topic="T", body=b"")),
            self.producer.send_batch([Message(topic="T", body=b"")]),
            self.producer.send_oneway(Message(topic="T", body=b"")),
        ):
            error = self.assertRaises(Closed, Task(work).result)
            self.assertEqual(str(error), "producer g was stopped")
        self.assertFalse(stopping.done)
        self.driver.held[0].fire(stored())
        self.assertEqual((under_way.done, stopping.done), (True, True))
        self.assertEqual(self.link.session.producers, [])

    def test_a_heartbeat_and_topics(self) -> None:
        self.start()
        self.send()
        self.assertEqual((self.producer.heartbeat(), self.producer.topics), ({"groupName": "g"}, ["T"]))
        self.assertIsNone(self.producer.on_request(A, RemotingCommand(39)))


class SharingTests(ProducerCase):
    def fill(self, count: int, **more: Any) -> list[Task[Any]]:
        """TOPIC_REQUESTS go alone, `count` wait."""
        self.start(coalesce=True, **more)
        alone = [self.send(b"alone") for _ in range(TOPIC_REQUESTS)]
        self.assertEqual(len(self.driver.held), len(alone))
        return [self.send(b"%d" % number) for number in range(count)]

    def test_what_waits_shares_the_next_request_and_each_gets_its_own_result(self) -> None:
        waiting = self.fill(3)
        self.driver.held[0].fire(stored())
        batch = self.driver.requests[-1].request
        self.assertEqual([body for _, body, _ in decode_batch(batch.body)], [b"0", b"1", b"2"])
        ext = {"msgId": "O0,O1,O2", "queueId": "0", "queueOffset": "40"}
        self.driver.held[-1].fire(RemotingCommand(0, flag=1, ext=ext))
        found = [(each.result().offset_id, each.result().queue_offset) for each in waiting]
        self.assertEqual(found, [("O0", 40), ("O1", 41), ("O2", 42)])
        self.assertEqual(len({each.result().message_id for each in waiting}), 3)

    def test_a_batch_stays_within_what_the_brokers_take(self) -> None:
        """Each message does: gathered, they mustn't fail where they would have been stored one by one."""
        self.fill(0, max_message_size=1000)
        waiting = [self.send(b"x" * 300, properties={"name": "\u6d88" * 60}) for _ in range(5)]
        for held in self.driver.held:  # more while it goes on
            held.fire(stored())
        self.assertEqual([each.result().queue.queue_id for each in waiting], [0] * 5)
        small = [self.send(b"y") for _ in range(TOPIC_REQUESTS + 9)]
        for held in self.driver.held:
            held.fire(stored())
        self.assertTrue(all(each.done for each in small))
        sizes = [len(each.request.body) for each in self.driver.asked(BATCH)]
        self.assertTrue(sizes and max(sizes) <= 1000, sizes)

    def test_one_that_waits_alone_goes_alone(self) -> None:
        (waiting,) = self.fill(1)
        self.driver.held[0].fire(stored())
        self.assertEqual((len(self.driver.asked(BATCH)), self.driver.requests[-1].request.body), (0, b"0"))
        self.driver.held[-1].fire(stored())
        self.assertTrue(waiting.done)

    def test_the_batchs_failure_is_that_of_all_its_messages(self) -> None:
        waiting = self.fill(3)
        self.driver.held[0].fire(stored())
        self.driver.held[-1].fire(RemotingCommand(13, flag=1, remark="planned"))
        for each in waiting:
            self.assertEqual(self.assertRaises(Refused, each.result).remark, "planned")

    def test_a_leader_that_is_cancelled_fails_those_it_led_and_the_line_goes_on(self) -> None:
        waiting = self.fill(2)
        self.driver.held[0].fire(stored())
        later = self.send(b"later")
        waiting[0].cancel()
        self.assertRaises(Cancelled, waiting[0].result)
        error = self.assertRaises(Closed, waiting[1].result)
        self.assertEqual(str(error), "the send that led this batch was cancelled")
        self.assertEqual(self.driver.requests[-1].request.body, b"later")
        self.driver.held[-1].fire(stored())
        self.assertTrue(later.done)

    def test_messages_of_an_order_key_go_one_request_after_the_other(self) -> None:
        self.start(coalesce=True)
        for number in range(3):
            self.send(b"%d" % number, order_key="k")
        self.assertEqual(len(self.driver.held), 1)
        self.driver.held[0].fire(stored())
        batch = self.driver.requests[-1].request
        self.assertEqual([body for _, body, _ in decode_batch(batch.body)], [b"1", b"2"])

    def test_messages_of_an_order_key_that_cant_share_dont_overtake_those_that_wait(self) -> None:
        for number, more in enumerate(
            ({"body": b"x" * 1001}, {"body": b"x", "wait": False}, {"delay_level": 1})
        ):
            self.setUp()
            self.start(coalesce=True, compress_above=1000)
            fields: list[Any] = [{"body": b"1"}, {"body": b"2"}, {"body": b"y"} | more, {"body": b"4"}]
            sends = [self.send(order_key="k", **each) for each in fields]
            for held in self.driver.held:  # more while it goes on
                self.assertEqual([each for each in self.driver.held if not each.done], [held], number)
                held.fire(stored())
            self.assertTrue(all(each.done for each in sends))
            bodies = [each.request.body for each in self.driver.asked(310)]
            self.assertEqual([bodies[0], bodies[1], bodies[3]], [b"1", b"2", b"4"], number)

    def test_what_cant_share_goes_by_itself(self) -> None:
        self.fill(0, compress_above=1000)
        for body, more in ((b"x", {"delay_level": 1}), (b"x" * 1001, {}), (b"y", {"wait": False})):
            count = len(self.driver.held)
            self.send(body, **more)
            self.assertEqual(len(self.driver.held), count + 1)
        there = MessageQueue(broker_name="b", queue_id=1, topic="T")
        Task(self.producer.send(Message(topic="T", body=b"x"), queue=there))
        self.assertEqual(self.driver.requests[-1].address, B)
        self.send(b"x" * 1000)
        self.assertEqual(self.driver.requests[-1].address, B, "that one waits")

    def test_its_own_mistakes_are_reported_at_once(self) -> None:
        self.fill(0)
        for wrong in (Message(topic="a b", body=b""), Message(topic="T", body=b"", properties={"a": ""})):
            self.assertRaises(BadMessage, Task(self.producer.send(wrong)).result)

    def test_the_line_has_an_end_and_ready_waits_for_half_of_it(self) -> None:
        self.fill(0, max_waiting_bytes=1000)
        self.done(self.producer.ready())
        waiting = [self.send(b"x" * 300), self.send(b"x" * 300)]
        ready = Task(self.producer.ready())
        error = self.assertRaises(ProducerFull, self.send(b"x" * 300).result)
        self.assertRegex(str(error), r"^\d+ bytes are waiting to be sent: await ready\(\) between sends$")
        settled = Task(self.producer.settled())
        for held in self.driver.held[:3]:
            held.fire(stored())
        self.assertEqual((len(self.driver.held), ready.done), (TOPIC_REQUESTS + 1, False))
        for held in self.driver.held[3:]:
            held.fire(RemotingCommand(0, flag=1, ext={"queueId": "0", "queueOffset": "40"}))
        self.driver.clock.advance(0)
        self.assertEqual([each.done for each in [*waiting, ready, settled]], [True] * 4)
        large = self.send(b"x" * 3000)
        self.assertFalse(large.done)

    def test_with_half_of_the_line_taken_its_still_ready(self) -> None:
        body = b"x" * 300
        self.fill(0, max_waiting_bytes=2 * batch_share(Message(topic="T", body=body)))
        self.send(body)
        self.assertTrue(Task(self.producer.ready()).done)
        self.send(b"")
        self.assertFalse(Task(self.producer.ready()).done)

    def test_a_stop_closes_the_line(self) -> None:
        waiting = self.fill(2)
        Task(self.producer.stop())
        for each in waiting:
            self.assertRaises(Closed, each.result)
        self.assertRaises(Closed, self.send().result)


class TransactionTests(SynchronousTestCase):
    def start(self, check: Callable[[ReceivedMessage], Any], code: int = 0) -> TransactionProducer:
        def answer(address: str, request: RemotingCommand) -> RemotingCommand:
            return stored(code) if request.code == SEND else RemotingCommand(0, flag=1)

        self.driver = ScriptedDriver({"a": {0: A}}, answer)
        self.said: list[str] = []
        for level in ("warn", "exception"):
            self.patch(self.driver.log, level, self.say)
        link = ClusterLink(self.driver, NAME_SERVER, "me")
        return link.transaction_producer("g", check, ProducerOptions())

    def say(self, format: str, *error: BaseException, **fields: object) -> None:
        self.said.append(format.format(**fields) + "".join(f": {each}" for each in error))

    def ends(self) -> list[dict[str, str]]:
        found = self.driver.asked(RequestCode.END_TRANSACTION)
        self.assertEqual({(each.address, each.timeout) for each in found} - {(A, None)}, set())
        return [dict(each.request.ext) for each in found]

    def test_the_works_outcome_field_by_field(self) -> None:
        for state, code in ((TransactionState.COMMIT, "8"), (TransactionState.ROLLBACK, "12")):
            producer = self.start(lambda message: None)
            work = producer.send_in_transaction(
                Message(topic="T", body=b"x"), lambda message, state=state: state
            )
            result, found = Task(work).result()
            fields = {
                "producerGroup": "g",
                "commitOrRollback": code,
                "tranStateTableOffset": "9",
                "topic": "T",
            }
            fields |= {
                "commitLogOffset": "42",
                "msgId": result.message_id,
                "transactionId": result.message_id,
            }
            self.assertEqual((found, self.ends()), (state, [fields]))

    def test_unknown_says_nothing_and_less_than_stored_is_rolled_back(self) -> None:
        producer = self.start(lambda message: None)
        unknown = producer.send_in_transaction(
            Message(topic="T", body=b"x"), lambda message: TransactionState.UNKNOWN
        )
        self.assertEqual(Task(unknown).result()[1], TransactionState.UNKNOWN)
        self.assertEqual(self.ends(), [])
        producer = self.start(lambda message: None, code=12)
        worked: list[Message] = []
        less = producer.send_in_transaction(Message(topic="T", body=b"x"), worked.append)  # type: ignore[arg-type]
        self.assertEqual(Task(less).result()[1], TransactionState.ROLLBACK)
        self.assertEqual(([each["commitOrRollback"] for each in self.ends()], worked), (["12"], []))

    def test_work_that_gives_something_else_leaves_it_undecided(self) -> None:
        producer = self.start(lambda message: None)
        work = producer.send_in_transaction(Message(topic="T", body=b"x"), lambda message: True)  # type: ignore[arg-type, return-value]
        error = self.assertRaises(BadTransactionState, Task(work).result)
        self.assertEqual((str(error), self.ends()), ("expected a TransactionState, not True", []))

    def test_an_outcome_that_cant_be_reported_is_logged(self) -> None:
        producer = self.start(lambda message: None)

        def oneway(address: str, request: RemotingCommand) -> None:
            raise TooManyCalls(address, "full")

        self.patch(self.driver, "oneway", oneway)
        work = producer.send_in_transaction(
            Message(topic="T", body=b"x"), lambda message: TransactionState.COMMIT
        )
        self.assertEqual(Task(work).result()[1], TransactionState.COMMIT)
        self.assertEqual(self.said, [f"COMMIT couldn't be reported: {A}: full"])

    def question(self, group: str, body: bytes | None = None) -> RemotingCommand:
        raw = encode_properties({"UNIQ_KEY": "U1", "PGROUP": group})
        record = make_record("T", b"x", raw_properties=raw, queue_id=3, physical_offset=42)
        ext = {"tranStateTableOffset": "11", "commitLogOffset": "42", "transactionId": "X1"}
        return RemotingCommand(39, ext=ext, body=encode_record(record) if body is None else body)

    def test_a_brokers_question_is_answered_field_by_field(self) -> None:
        asked: list[ReceivedMessage] = []

        def check(message: ReceivedMessage) -> TransactionState:
            asked.append(message)
            return TransactionState.ROLLBACK

        producer = self.start(check)
        for group in ("other", "g"):
            self.assertIsNone(producer.on_request(A, self.question(group)))
        fields = {"producerGroup": "g", "commitOrRollback": "12", "tranStateTableOffset": "11", "topic": "T"}
        fields |= {
            "commitLogOffset": "42",
            "msgId": "U1",
            "transactionId": "X1",
            "fromTransactionCheck": "true",
        }
        self.assertEqual(self.ends(), [fields])
        self.assertEqual([(each.message_id, each.queue.broker_name) for each in asked], [("U1", "")])

    def test_a_question_that_cant_be_read_or_answered_is_reported(self) -> None:
        producer = self.start(lambda message: None)
        for body in (b"", b"nonsense"):
            self.assertIsNone(producer.on_request(A, self.question("g", body)))
        self.assertTrue(all(each.startswith(f"{A}: unreadable transaction check: ") for each in self.said))
        producer.on_request(A, self.question("g"))
        self.assertEqual(
            self.said[2:], ["checking a transaction failed: expected a TransactionState, not None"]
        )
        self.assertEqual(self.ends(), [])
