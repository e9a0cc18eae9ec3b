"""A whole consumer on a clock of the test's, beside a master that answers by its table: what it asks, field by
field, what it gives the program, and what it notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.clientcore.clusterlink import ClusterLink
from hatwisted.clientcore.consumer import COMMIT_INTERVAL, REBALANCE_INTERVAL, STOP_PATIENCE, Consumer
from hatwisted.clientcore.delivery import Listener
from hatwisted.clientcore.errors import (
    BadSetting,
    CallTimedOut,
    ClientError,
    ConnectFailed,
    Rejected,
    Unsettled,
)
from hatwisted.clientcore.message import ReceivedMessage
from hatwisted.clientcore.options import ConsumeFrom, ConsumerOptions
from hatwisted.clientcore.queuelocks import LOCK_LIFE, RENEWAL_INTERVAL
from hatwisted.clientcore.queuereader import PULL_TIMEOUT
from hatwisted.clientcore.sendback import SEND_BACK_PAUSE
from hatwisted.clientcore.tasks import Task, Waiter, Work
from hatwisted.wire import fastjson
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.hostport import HostPort
from hatwisted.wire.messagequeue import MessageQueue, parse_queue_key
from hatwisted.wire.properties import encode_properties
from hatwisted.wire.record import encode_record, make_record
from hatwisted.wire.remoting import RemotingCommand
from tests.support.scripteddriver import NAME_SERVER, ScriptedDriver

MASTER = "10.0.0.1:10911"
HOST = HostPort(b"\x0a\0\0\x01", 10911)
NOT_FOUND, QUERY_NOT_FOUND = 19, 22
T0, T1 = (MessageQueue(broker_name="a", queue_id=number, topic="T") for number in (0, 1))
RETRY = "%RETRY%g"


def stored(queue_id: int, offset: int, sys_flag: int = 0) -> bytes:
    body = b"%d-%d" % (queue_id, offset)
    raw = encode_properties({"UNIQ_KEY": f"U{queue_id}{offset}", "TAGS": "red", "color": "blue"})
    record = make_record(
        "T",
        body,
        raw_properties=raw,
        queue_id=queue_id,
        queue_offset=offset,
        physical_offset=1000 * queue_id + 100 * offset,
        flag=5,
        sys_flag=sys_flag,
        born_timestamp=7,
        store_timestamp=8,
        store_host=HOST,
    )
    return encode_record(record)


class Master:
    """Topic T with two queues, `counts` messages in them. What isn't there is never answered: a pull is held."""

    def __init__(self) -> None:
        self.counts = {0: 0, 1: 0}
        self.offsets: dict[tuple[str, int], int] = {}
        self.codes: dict[int, int] = {}
        """By request: refused with this."""
        self.refused_locks: set[int] = set()
        self.packed: set[tuple[int, int]] = set()
        """Queue and offset of messages whose bodies say that they are compressed."""
        self.members = ["me"]
        self.down = False

    def answer(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        if self.down:
            raise ConnectFailed(address, "refused")
        if request.code in self.codes:
            return RemotingCommand(self.codes[request.code], flag=1, remark="planned")
        by_code = {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.QUERY_CONSUMER_OFFSET: self.offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.commit,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: lambda request: _json({"consumerIdList": self.members}),
            RequestCode.GET_MAX_OFFSET: lambda request: _ok(offset=9),
            RequestCode.GET_MIN_OFFSET: lambda request: _ok(offset=0),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda request: _ok(offset=4),
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.SEND_MESSAGE_V2: lambda request: _ok(msgId="0" * 32, queueId=0, queueOffset=0),
        }
        found: Callable[[RemotingCommand], RemotingCommand | None] = by_code.get(
            RequestCode(request.code), lambda request: _ok()
        )
        return found(request)

    def pull(self, request: RemotingCommand) -> RemotingCommand | None:
        if request.ext["topic"] != "T":
            return None
        queue_id, begin = int(request.ext["queueId"]), int(request.ext["queueOffset"])
        end = min(begin + int(request.ext["maxMsgNums"]), self.counts[queue_id])
        if begin >= end:
            return None
        flags = [(offset, 0x301 if (queue_id, offset) in self.packed else 0) for offset in range(begin, end)]
        body = b"".join(stored(queue_id, offset, flag) for offset, flag in flags)
        answer = _ok(nextBeginOffset=end, minOffset=0, maxOffset=end, suggestWhichBrokerId=0)
        answer.body = body
        return answer

    def offset(self, request: RemotingCommand) -> RemotingCommand:
        known = self.offsets.get((request.ext["topic"], int(request.ext["queueId"])))
        return RemotingCommand(QUERY_NOT_FOUND, flag=1) if known is None else _ok(offset=known)

    def commit(self, request: RemotingCommand) -> RemotingCommand:
        place = request.ext["topic"], int(request.ext["queueId"])
        self.offsets[place] = int(request.ext["commitOffset"])
        return _ok()

    def lock(self, request: RemotingCommand) -> RemotingCommand:
        asked = fastjson.loads(request.body)["mqSet"]
        return _json({"lockOKMQSet": [each for each in asked if each["queueId"] not in self.refused_locks]})


def _ok(**ext: object) -> RemotingCommand:
    return RemotingCommand(0, flag=1, ext={name: str(value) for name, value in ext.items()})


def _json(value: object) -> RemotingCommand:
    return RemotingCommand(0, flag=1, body=fastjson.dumps_compact(value))


class ConsumerCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.master = Master()
        self.driver = ScriptedDriver({"a": {0: MASTER}}, self.master.answer)
        self.driver.clock.advance(1000)
        self.link = ClusterLink(self.driver, [NAME_SERVER, "10.0.0.8:9876"], "me")
        self.seen: list[bytes] = []
        self.failing: dict[bytes, Exception] = {}

    def listen(self, batch: Sequence[ReceivedMessage]) -> None:
        self.seen += [each.body for each in batch]
        for each in batch:
            if each.body in self.failing:
                raise self.failing[each.body]

    def start(self, listener: Listener | None = None, expression: str = "*", **options: Any) -> Consumer:
        options = {"consume_from": ConsumeFrom.FIRST} | options
        consumer = self.link.consumer(
            "g", {"T": expression}, listener or self.listen, ConsumerOptions(**options)
        )
        self.done(consumer.start())
        return consumer

    def done(self, work: Work[Any]) -> Any:
        return Task(work).result()

    def fields(self, code: int, topic: str = "T") -> list[dict[str, str]]:
        return [
            dict(each.request.ext)
            for each in self.driver.asked(code)
            if each.request.ext.get("topic", topic) == topic
        ]

    def logged(self, level: str) -> list[str]:
        found: list[str] = []

        def say(format: str, *error: BaseException, **fields: object) -> None:
            found.append(format.format(**fields) + "".join(f": {each}" for each in error))

        self.patch(self.driver.log, level, say)
        return found


class ReadingTests(ConsumerCase):
    def test_a_pull_says_who_where_and_how_long_to_hold_it(self) -> None:
        self.master.counts = {0: 3, 1: 0}
        self.start()
        pull = {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "0",
            "queueOffset": "0",
            "maxMsgNums": "32",
            "sysFlag": "6",
            "commitOffset": "0",
            "suspendTimeoutMillis": "15000",
            "subscription": "*",
            "subVersion": "1000000",
            "expressionType": "TAG",
            "bname": "a",
        }
        following = pull | {"queueOffset": "3", "commitOffset": "3", "sysFlag": "7"}
        self.assertEqual(self.fields(11), [pull, following, pull | {"queueId": "1"}])
        self.assertEqual({each.timeout for each in self.driver.asked(11)}, {PULL_TIMEOUT})
        self.assertEqual(self.seen, [b"0-0", b"0-1", b"0-2"])

    def test_a_message_as_its_program_sees_it(self) -> None:
        found: list[ReceivedMessage] = []
        self.master.counts = {0: 0, 1: 1}
        self.start(found.extend)
        (message,) = found
        self.assertEqual((message.topic, message.queue, message.queue_offset), ("T", T1, 0))
        self.assertEqual((message.body, message.tags, message.keys), (b"1-0", "red", []))
        self.assertEqual((message.message_id, message.commit_log_offset), ("U10", 1000))
        self.assertEqual(message.offset_id, "0A000001" + "00002A9F" + f"{1000:016X}")
        self.assertEqual((message.born_timestamp, message.store_timestamp), (7, 8))
        self.assertEqual((message.flag, message.sys_flag, message.reconsume_times), (5, 0, 0))
        self.assertEqual((message.store_host, message.size), ("10.0.0.1:10911", len(stored(1, 0))))

    def test_where_a_group_begins(self) -> None:
        for place, code, begin, more in (
            (ConsumeFrom.FIRST, RequestCode.GET_MIN_OFFSET, "0", {}),
            (ConsumeFrom.LAST, RequestCode.GET_MAX_OFFSET, "9", {}),
            (ConsumeFrom.TIMESTAMP, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, "4", {"timestamp": "77"}),
        ):
            self.setUp()
            self.start(consume_from=place, timestamp=77)
            queues = [{"topic": "T", "queueId": each} | more for each in "01"]
            self.assertEqual(self.fields(code), queues, "T alone: retries are read from their beginning")
            self.assertEqual({each["queueOffset"] for each in self.fields(11)}, {begin})
            self.assertEqual({each["queueOffset"] for each in self.fields(11, RETRY)}, {"0"})
            asked = [{"consumerGroup": "g"} | {"topic": "T", "queueId": each} for each in "01"]
            self.assertEqual(self.fields(14), asked)

    def test_a_new_group_begins_where_the_master_says_not_one_that_is_a_slave_by_now(self) -> None:
        """It may have begun in its new master's last file, and lack what is before it."""
        beat = self.driver.answer

        def promoted(address: str, request: RemotingCommand) -> RemotingCommand | None:
            if request.code == RequestCode.HEART_BEAT:  # after the route was asked for
                self.driver.groups = {"a": {0: "10.0.0.2:10911", 1: MASTER}}
            if request.code == RequestCode.GET_MIN_OFFSET and address == MASTER:
                return _ok(offset=5)
            return beat(address, request)

        self.driver.answer = promoted
        self.master.counts = {0: 7, 1: 0}
        self.start()
        self.driver.pass_time(5)
        self.assertEqual(self.seen, [b"0-%d" % each for each in range(7)])
        self.assertEqual(
            {address for _, address in self.driver.calls_of(RequestCode.GET_MIN_OFFSET)}, {"10.0.0.2:10911"}
        )

    def test_a_group_goes_on_where_it_stands(self) -> None:
        self.master.counts = {0: 5, 1: 5}
        self.master.offsets = {("T", 0): 3, ("T", 1): 4}
        self.start(consume_from=ConsumeFrom.LAST)
        self.assertEqual(self.seen, [b"0-3", b"0-4", b"1-4"])

    def test_an_offset_that_isnt_known_is_asked_for_again_before_anything_is_read(self) -> None:
        said = self.logged("info")
        self.master.codes = {14: 1}
        self.start()
        self.assertEqual(self.fields(11), [])
        self.assertTrue(any("offsets of 2 queues of T aren't known yet" in each for each in said), said)
        self.master.codes = {}
        self.driver.pass_time(2.75)
        self.assertEqual(self.fields(11), [])
        self.driver.pass_time(0.25)
        self.assertEqual(len(self.fields(11)), 2)

    def test_tags_come_with_each_pull_and_are_compared(self) -> None:
        self.master.counts = {0: 2, 1: 0}
        self.start(expression=" red||blue ")
        self.assertEqual(self.fields(11)[0]["subscription"], "red||blue")
        self.assertEqual(len(self.seen), 2)
        self.setUp()
        self.master.counts = {0: 2, 1: 0}
        consumer = self.start(expression="green")
        self.assertEqual((self.seen, consumer.progress[T0]), ([], 2))


class SharingTests(ConsumerCase):
    def test_queues_are_shared_out_every_20_s_and_when_a_broker_says_so(self) -> None:
        self.start()
        first = len(self.driver.asked(38))
        self.driver.pass_time(2 * REBALANCE_INTERVAL)
        at = [each for each, _ in self.driver.calls_of(38)][first:]
        self.assertEqual(at, [1020, 1020, 1040, 1040])
        self.assertEqual({each.request.ext["consumerGroup"] for each in self.driver.asked(38)}, {"g"})
        told = RemotingCommand(40, ext={"consumerGroup": "g"}, flag=2)
        self.assertIsNone(self.driver.ask(MASTER, told))
        self.assertEqual(len(self.driver.asked(38)), first + 6)

    def test_a_queue_that_another_member_gets_is_noted_and_read_no_more(self) -> None:
        self.master.counts = {0: 1, 1: 2}
        consumer = self.start()
        self.master.members = ["a", "me"]
        consumer.rebalance()
        self.assertEqual([each.queue_id for each in consumer.queues], [1, 1])
        self.assertEqual([(each["queueId"], each["commitOffset"]) for each in self.fields(15)], [("0", "1")])
        self.master.members = ["me"]
        consumer.rebalance()
        self.assertEqual((consumer.progress[T0], consumer.progress[T1]), (1, 2))

    def test_one_that_no_broker_knows_as_a_member_keeps_what_it_has(self) -> None:
        consumer = self.start()
        before, beats = consumer.queues, len(self.driver.asked(34))
        self.master.members = ["other"]
        consumer.rebalance()
        self.assertEqual((consumer.queues, len(self.driver.asked(34))), (before, beats + 2), "one a topic")

    def test_one_that_hasnt_begun_shares_nothing_out(self) -> None:
        consumer = self.link.consumer("g", {"T": "*"}, self.listen, ConsumerOptions())
        consumer.rebalance()
        self.assertEqual(self.driver.calls, [])
        self.assertIsNone(consumer.on_request(MASTER, RemotingCommand(999)))

    def test_members_that_cant_be_asked_for_change_nothing(self) -> None:
        said = self.logged("info")
        consumer = self.start()
        before = consumer.queues
        self.master.down = True
        consumer.rebalance()
        self.assertEqual(consumer.queues, before)
        self.assertTrue(said[0].startswith("keeping the queues of T as they are: "), said)


class ProgressTests(ConsumerCase):
    def test_progress_is_noted_every_5_s_and_at_the_stop(self) -> None:
        self.master.counts = {0: 3, 1: 0}
        consumer = self.start()
        self.assertEqual((consumer.uncommitted, consumer.progress[T0]), (4, 3), "no queue was noted yet")
        self.assertEqual(self.fields(15), [])
        self.driver.pass_time(COMMIT_INTERVAL)
        noted = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "3"}
        self.assertEqual(self.fields(15), [noted, noted | {"queueId": "1", "commitOffset": "0"}])
        self.assertEqual(consumer.uncommitted, 0)
        self.driver.pass_time(COMMIT_INTERVAL)
        self.assertEqual(len(self.fields(15)), 2, "only what has changed")
        self.master.counts = {0: 4, 1: 0}
        self.driver.pass_time(30)
        self.assertEqual(len(self.fields(15)), 3)
        self.done(consumer.stop())
        self.assertEqual((len(self.fields(15)), consumer.queues), (3, []))

    def test_what_couldnt_be_noted_is_tried_again_and_counted_after_the_stop(self) -> None:
        said = self.logged("warn")
        self.master.counts = {0: 3, 1: 0}
        consumer = self.start()
        self.master.codes = {15: 1}
        for count in (1, 2):
            self.done(consumer.commit())
            self.assertEqual((len(self.fields(15)), consumer.uncommitted), (2 * count, 4))
        self.assertIn("offsets aren't committed yet", said[0])
        self.done(consumer.stop())
        self.assertEqual(consumer.uncommitted, 4)

    def test_without_auto_commit_only_the_program_notes_progress(self) -> None:
        self.master.counts = {0: 3, 1: 0}
        consumer = self.start(auto_commit=False)
        self.driver.pass_time(2 * COMMIT_INTERVAL)
        self.assertEqual({each["commitOffset"] for each in self.fields(11)}, {"0"})
        self.assertEqual(self.fields(15), [])
        self.done(consumer.commit())
        self.assertEqual(len(self.fields(15)), 2)
        self.master.counts = {0: 4, 1: 0}
        self.driver.pass_time(30)
        self.done(consumer.stop())
        self.assertEqual(len(self.fields(15)), 2)

    def test_without_auto_commit_nothing_is_noted_of_a_queue_that_another_gets(self) -> None:
        self.master.counts = {0: 1, 1: 2}
        consumer = self.start(auto_commit=False)
        self.master.members = ["a", "me"]
        consumer.rebalance()
        self.assertEqual([each.queue_id for each in consumer.queues], [1, 1])
        self.assertEqual(self.fields(15), [])

    def test_a_silent_broker_is_asked_to_note_one_queue_and_the_others_later(self) -> None:
        said = self.logged("warn")
        self.master.counts = {0: 3, 1: 3}
        consumer = self.start()

        def silent(request: RemotingCommand) -> RemotingCommand:
            raise CallTimedOut(MASTER, "no answer in 5 s")

        self.patch(self.master, "commit", silent)
        self.done(consumer.commit())
        self.assertEqual(len(self.driver.asked(15)), 1)
        self.assertEqual(said, [f"offsets aren't committed yet: {MASTER}: no answer in 5 s"])

    def test_seek_notes_the_place_and_goes_on_there(self) -> None:
        self.master.counts = {0: 4, 1: 0}
        consumer = self.start()
        self.seen.clear()
        self.done(consumer.seek(T0, 2))
        self.assertEqual(
            self.fields(15)[-1], {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "2"}
        )
        self.assertEqual(self.seen, [b"0-2", b"0-3"])
        other = MessageQueue(broker_name="a", queue_id=7, topic="T")
        error = self.assertRaises(BadSetting, Task(consumer.seek(other, 0)).result)
        self.assertEqual(str(error), f"{other} isn't read by this consumer now")

    def test_a_seek_holds_when_queues_are_shared_out_before_it_could_be_noted(self) -> None:
        self.seek_beside_a_commit(orderly=False)

    def test_a_seek_in_order_holds_while_a_commit_is_under_way(self) -> None:
        """The queue that it gives up is shared out at once."""
        self.seek_beside_a_commit(orderly=True)

    def seek_beside_a_commit(self, orderly: bool) -> None:
        """The commit of every five seconds is under way, so the place is told after it."""
        self.master.counts = {0: 4, 1: 0}
        consumer = self.start(orderly=orderly)
        committed: list[Waiter[RemotingCommand]] = []
        call = self.driver.call

        def late(address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
            if request.code != 15 or committed:
                return call(address, request, timeout)
            committed.append(Waiter())
            self.master.commit(request)
            return committed[0]

        self.patch(self.driver, "call", late)
        committing = Task(consumer.commit())
        self.seen.clear()
        seeking = Task(consumer.seek(T0, 2))
        if not orderly:
            consumer.rebalance()
        committed[0].fire(RemotingCommand(0, flag=1))
        committing.result()
        seeking.result()
        self.driver.pass_time(COMMIT_INTERVAL + 1)
        self.assertEqual(self.seen, [b"0-2", b"0-3"])
        self.assertEqual(consumer.progress[T0], 4)


class ProgramTests(ConsumerCase):
    def test_a_paused_queue_gives_nothing_until_it_resumes(self) -> None:
        consumer = self.start()
        consumer.pause([T0])
        self.master.counts = {0: 2, 1: 1}
        self.driver.pass_time(PULL_TIMEOUT + 4)
        self.assertEqual(self.seen, [b"1-0"])
        consumer.resume([MessageQueue(broker_name="a", queue_id=7, topic="T"), T0])
        self.assertEqual(self.seen, [b"1-0", b"0-0", b"0-1"])

    def test_a_pause_takes_back_what_a_loop_hasnt_taken(self) -> None:
        self.master.counts = {0: 2, 1: 1}
        consumer = self.link.consumer("g", {"T": "*"}, None, ConsumerOptions(consume_from=ConsumeFrom.FIRST))
        self.done(consumer.start())
        consumer.pause([T0])
        messages = consumer.messages()
        self.assertEqual(self.done(messages.next()).body, b"1-0")
        following = Task(messages.next())
        self.assertFalse(following.done)
        consumer.resume([T0])
        self.driver.pass_time(2)
        self.assertEqual(following.result().body, b"0-0")
        self.assertEqual(consumer.progress[T1], 1)
        self.done(consumer.stop())
        self.assertIsNone(self.done(messages.next()))

    def test_a_message_whose_task_was_cancelled_by_its_program_comes_again(self) -> None:
        """Without another message that would ask for it."""
        self.master.counts = {0: 1, 1: 0}
        at_work: list[Waiter[None]] = []

        def listen(batch: Sequence[ReceivedMessage]) -> Waiter[None]:
            at_work.append(Waiter())
            return at_work[-1]

        consumer = self.start(listen)
        at_work[0].fail(Unsettled("the program's task was cancelled"))  # as asyncio's driver tells of it
        self.driver.pass_time(REBALANCE_INTERVAL + COMMIT_INTERVAL)
        self.assertEqual(len(at_work), 2)
        at_work[1].fire(None)
        self.assertEqual(consumer.progress[T0], 1)

    def test_a_failed_message_goes_back_field_by_field(self) -> None:
        self.master.counts = {0: 2, 1: 0}
        self.failing = {b"0-0": ValueError("bad")}
        said = self.logged("exception")
        self.start()
        back = {
            "offset": "0",
            "group": "g",
            "delayLevel": "0",
            "originMsgId": "U00",
            "originTopic": "T",
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        }
        self.assertEqual([each.request.ext for each in self.driver.asked(36)], [back])
        told = f"message U00 of {T0}, offset 0: the program failed on it; it is sent back: bad"
        self.assertEqual((said, self.seen), ([told], [b"0-0", b"0-1"]))

    def test_a_body_that_cant_be_read_goes_back_and_no_copy_of_it_is_made(self) -> None:
        self.master.counts = {0: 3, 1: 0}
        self.master.packed = {(0, 1)}
        self.master.codes = {36: 1}
        said = self.logged("error")
        consumer = self.start(batch=3)
        self.assertEqual((self.seen, consumer.progress[T0]), ([b"0-0"], 0))
        self.assertEqual(len(said), 1)
        self.assertIn(f"message U01 of {T0}, offset 1: the body is not zlib", said[0])
        self.master.codes = {}
        self.driver.pass_time(SEND_BACK_PAUSE)
        self.assertEqual((self.seen, consumer.progress[T0]), ([b"0-0", b"0-2"], 3))
        self.assertEqual([each.request.ext["offset"] for each in self.driver.asked(36)], ["100", "100"])
        self.assertEqual(self.driver.asked(310), [])

    def test_in_order_a_body_that_cant_be_read_holds_up_its_queue(self) -> None:
        self.master.counts = {0: 3, 1: 0}
        self.master.packed = {(0, 1)}
        consumer = self.start(orderly=True, max_reconsume=0)
        self.driver.pass_time(60)
        self.assertEqual((self.seen, consumer.progress[T0]), ([b"0-0"], 1))

    def test_a_rejected_message_goes_back_without_a_traceback(self) -> None:
        self.master.counts = {0: 1, 1: 0}
        self.failing = {b"0-0": Rejected("later")}
        exceptions, said = self.logged("exception"), self.logged("info")
        self.start(max_reconsume=3)
        (back,) = self.driver.asked(36)
        self.assertEqual(back.request.ext["maxReconsumeTimes"], "3")
        self.assertEqual((exceptions, said), ([], [f"message U00 of {T0} is sent back"]))

    def test_a_copy_goes_where_the_master_wont_take_it_back_and_again_until_one_is_stored(self) -> None:
        self.master.counts = {0: 1, 1: 0}
        self.failing = {b"0-0": Rejected("later")}
        self.master.codes = {36: 1, 310: 13}
        consumer = self.start()
        self.assertEqual((len(self.driver.asked(36)), len(self.driver.asked(310))), (1, 1))
        self.driver.pass_time(SEND_BACK_PAUSE - 0.25)
        self.assertEqual((len(self.driver.asked(310)), consumer.progress[T0]), (1, 0))
        self.master.codes = {36: 1}
        self.driver.pass_time(0.25)
        copy = self.driver.asked(310)[-1].request
        self.assertEqual((copy.ext["a"], copy.ext["b"], copy.body), ("CLIENT_INNER_PRODUCER", RETRY, b"0-0"))
        self.assertEqual((copy.ext["h"], copy.ext["j"], copy.ext["l"]), ("5", "1", "16"))
        properties = dict(each.split("\x01") for each in copy.ext["i"].split("\x02"))
        expected = {"TAGS": "red", "color": "blue", "UNIQ_KEY": "U00", "WAIT": "true", "DELAY": "3"}
        expected |= {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "0A00000100002A9F" + "0" * 16}
        self.assertEqual(properties, expected)
        self.assertEqual(consumer.progress[T0], 1)

    def test_broadcasting_skips_what_fails_and_says_so(self) -> None:
        self.master.counts = {0: 2, 1: 0}
        self.failing = {b"0-0": ValueError("bad")}
        said = self.logged("exception")
        file = Path(self.mktemp()).absolute() / "deep" / "offsets.json"
        consumer = self.start(broadcasting=True, local_offsets=file)
        self.assertEqual(self.seen, [b"0-0", b"0-1"])
        self.assertEqual(len(said), 1)
        self.assertIn("the program failed on it; it is skipped: broadcasting has no retries: bad", said[0])
        self.assertEqual((self.driver.asked(36), self.fields(14), self.fields(38)), ([], [], []))
        for _ in range(2):
            self.done(consumer.commit())
        self.assertEqual(self.fields(15), [])
        table = fastjson.loads(file.read_bytes())["offsetTable"]
        self.assertEqual({parse_queue_key(key): value for key, value in table.items()}, {T0: 2, T1: 0})
        file.write_bytes(b"[]")
        wrong = ConsumerOptions(broadcasting=True, local_offsets=file)
        error = self.assertRaises(ClientError, self.link.consumer, "h", {"T": "*"}, self.listen, wrong)
        self.assertTrue(str(error).startswith(f"{file}: not a file of offsets: "), error)

    def test_assigned_queues_are_read_from_there_and_no_others(self) -> None:
        self.master.counts = {0: 3, 1: 3}
        consumer = self.start(broadcasting=True, assigned={T1: 1})
        self.assertEqual(self.seen, [b"1-1", b"1-2"])
        self.assertEqual(consumer.progress, {T1: 3})
        self.assertEqual((self.fields(14), self.fields(15)), ([], []), "nobody's progress is asked or told")
        for wrong in ({}, {"broadcasting": True, "local_offsets": Path("f")}):
            self.assertRaises(BadSetting, ConsumerOptions, assigned={T1: 1}, **wrong)
        self.assertRaises(BadSetting, ConsumerOptions, broadcasting=True, assigned=[T1])

    def test_a_start_that_is_given_up_leaves_the_group(self) -> None:
        """The others would leave it its share of the queues, which nobody would read."""
        consumer = self.link.consumer("g", {"T": "*"}, self.listen, ConsumerOptions())
        call, silent = self.driver.call, Waiter[RemotingCommand]()
        members = RequestCode.GET_CONSUMER_LIST_BY_GROUP

        def one_silent(address: str, request: RemotingCommand, timeout: float) -> Waiter[RemotingCommand]:
            return silent if request.code == members else call(address, request, timeout)

        self.patch(self.driver, "call", one_silent)
        starting = Task(consumer.start())
        self.assertFalse(starting.done)
        starting.cancel()
        self.assertEqual(self.link.session.consumers, [])
        left = [each.request.ext for each in self.driver.asked(RequestCode.UNREGISTER_CLIENT)]
        self.assertEqual(left, [{"clientID": "me", "consumerGroup": "g"}])
        self.done(consumer.stop())

    def test_a_stop_waits_for_the_program_so_long_and_no_longer(self) -> None:
        said = self.logged("warn")
        at_work: list[Waiter[None]] = []

        def listen(batch: Sequence[ReceivedMessage]) -> Waiter[None]:
            at_work.append(Waiter())
            return at_work[-1]

        for finishes in (True, False):
            self.setUp()
            said = self.logged("warn")
            self.master.counts = {0: 1, 1: 0}
            consumer = self.start(listen)
            stopping = Task(consumer.stop())
            self.driver.pass_time(STOP_PATIENCE - 0.25)
            self.assertFalse(stopping.done)
            if finishes:
                at_work.pop().fire(None)
            else:
                self.driver.pass_time(0.25)
            stopping.result()
            late = ["g: stopped while the program was still handling messages"]
            self.assertEqual(said, [] if finishes else late)
            noted = {each["queueId"]: each["commitOffset"] for each in self.fields(15)}
            self.assertEqual(noted["0"], "1" if finishes else "0")
            left = [each.request.ext for each in self.driver.asked(RequestCode.UNREGISTER_CLIENT)]
            self.assertEqual(left, [{"clientID": "me", "consumerGroup": "g"}])


class OrderTests(ConsumerCase):
    def test_a_failed_message_blocks_its_queue_and_is_a_dead_letter_at_last(self) -> None:
        self.master.counts = {0: 2, 1: 0}
        self.failing = {b"0-0": ValueError("bad")}
        said = self.logged("exception")
        self.start(orderly=True, max_reconsume=2, suspension=1.0)
        self.assertEqual(self.seen, [b"0-0"])
        self.driver.pass_time(0.75)
        self.assertEqual(self.seen, [b"0-0"])
        self.driver.pass_time(0.25)
        self.assertEqual(self.seen, [b"0-0"] * 2)
        self.driver.pass_time(1)
        self.assertEqual(self.seen, [b"0-0"] * 3 + [b"0-1"])
        ends = [each.split("it failed ")[1] for each in said]
        blocked = "times by now and blocks its queue: bad"
        self.assertEqual(ends, [f"1 {blocked}", f"2 {blocked}", "3 times by now and is a dead letter: bad"])
        (copy,) = self.driver.asked(310)
        self.assertEqual((copy.request.ext["j"], copy.request.ext["l"]), ("3", "2"))

    def test_one_that_couldnt_be_made_a_dead_letter_goes_on_blocking_its_queue(self) -> None:
        self.master.counts = {0: 2, 1: 0}
        self.failing = {b"0-0": Rejected("never")}
        self.master.codes = {310: 13}
        said = self.logged("warn")
        self.start(orderly=True, max_reconsume=1, suspension=1.0)
        self.driver.pass_time(1)
        self.assertEqual(self.seen, [b"0-0"] * 2)
        self.assertTrue(said[0].startswith("U00 couldn't be sent to the dead letters: "), said)
        self.master.codes = {}
        self.driver.pass_time(1)
        self.assertEqual(self.seen, [b"0-0"] * 3 + [b"0-1"])

    def test_locks_are_asked_for_renewed_and_given_back(self) -> None:
        consumer = self.start(orderly=True)
        queues = [{"brokerName": "a", "queueId": number, "topic": "T"} for number in (0, 1)]
        retries = [each | {"topic": RETRY} for each in queues]
        body = {"clientId": "me", "consumerGroup": "g"}
        asked = [fastjson.loads(each.request.body) for each in self.driver.asked(41)]
        self.assertEqual(asked, [body | {"mqSet": queues}, body | {"mqSet": retries}])
        self.driver.pass_time(20)
        renewed = fastjson.loads(self.driver.asked(41)[2].request.body)
        by_id = [retries[0], queues[0], retries[1], queues[1]]
        self.assertEqual(renewed["mqSet"], by_id)
        self.done(consumer.stop())
        given = [fastjson.loads(each.request.body) for each in self.driver.asked(42)]
        self.assertEqual(given, [body | {"mqSet": by_id}])

    def test_a_lock_counts_for_half_of_its_life_at_the_broker(self) -> None:
        consumer = self.start(orderly=True)
        self.master.codes = {41: 1}
        self.driver.pass_time(LOCK_LIFE - 0.25)
        self.assertTrue(consumer.carries_progress(T0))
        self.driver.pass_time(0.25)
        self.assertFalse(consumer.carries_progress(T0))

    def test_a_reset_holds_for_a_queue_that_is_given_up_once_the_program_is_done(self) -> None:
        self.master.counts = {0: 0, 1: 1}
        at_work: list[Waiter[None]] = []

        def listen(batch: Sequence[ReceivedMessage]) -> Waiter[None]:
            at_work.append(Waiter())
            return at_work[-1]

        consumer = self.start(listen, orderly=True)
        self.master.members = ["me", "you"]
        consumer.rebalance()
        self.assertNotIn(T1, consumer.queues)
        consumer.reset({T1: 7})
        self.assertEqual(self.master.offsets["T", 1], 7)
        at_work[0].fire(None)
        given = fastjson.loads(self.driver.asked(RequestCode.UNLOCK_BATCH_MQ)[-1].request.body)["mqSet"]
        self.assertEqual(given, [{"brokerName": "a", "queueId": 1, "topic": "T"}])
        self.assertEqual(self.master.offsets["T", 1], 7)

    def test_a_renewal_that_failed_is_tried_again_before_the_lock_lapses(self) -> None:
        consumer = self.start(orderly=True)
        self.driver.pass_time(RENEWAL_INTERVAL - 1)
        self.master.codes = {41: 1}
        self.driver.pass_time(2)
        self.master.codes = {}
        self.driver.pass_time(LOCK_LIFE - RENEWAL_INTERVAL)
        self.assertTrue(consumer.carries_progress(T0))

    def test_a_seek_is_noted_under_the_lock(self) -> None:
        consumer = self.start(orderly=True)
        self.done(consumer.seek(T0, 2))
        self.assertEqual([each["commitOffset"] for each in self.fields(15)], ["2"])

    def test_a_queue_that_another_has_is_asked_for_each_second_and_read_when_its_ours(self) -> None:
        self.master.counts = {0: 1, 1: 1}
        self.master.refused_locks = {1}
        consumer = self.start(orderly=True)
        self.assertEqual((self.seen, [each.queue_id for each in consumer.queues]), ([b"0-0"], [0, 0]))
        self.driver.pass_time(0.75)
        self.master.refused_locks = set()
        self.assertEqual(self.seen, [b"0-0"])
        self.driver.pass_time(0.25)
        self.assertEqual(self.seen, [b"0-0", b"1-0"])

    def test_a_lock_that_another_has_taken_ends_the_reading(self) -> None:
        said = self.logged("warn")
        consumer = self.start(orderly=True)
        self.master.refused_locks = {1}
        self.driver.pass_time(20)
        self.assertEqual(
            sorted(said),
            [
                f"{each} is now locked by another member"
                for each in (MessageQueue(broker_name="a", queue_id=1, topic=RETRY), T1)
            ],
        )
        self.assertEqual([each.queue_id for each in consumer.queues], [0, 0])
        self.master.refused_locks = set()
        self.driver.pass_time(1)
        self.assertEqual(
            [each.queue_id for each in consumer.queues], [0, 0, 1, 1], "and its return begins it"
        )

    def test_a_lock_that_had_lapsed_goes_on_where_nobody_has_come_further(self) -> None:
        self.master.counts = {0: 1, 1: 1}
        consumer = self.start(orderly=True)
        self.driver.pass_time(COMMIT_INTERVAL)
        readers = consumer.readers
        self.master.codes = {41: 1}
        self.driver.pass_time(LOCK_LIFE)
        self.assertFalse(consumer.carries_progress(T0))
        self.master.offsets["T", 1] += 1
        self.master.codes = {}
        self.driver.pass_time(RENEWAL_INTERVAL)
        self.assertTrue(consumer.carries_progress(T0))
        self.assertIs(consumer.readers[T0], readers[T0])
        self.assertIsNot(consumer.readers[T1], readers[T1], "another member has been here")
        self.assertEqual(consumer.progress[T1], 2)


class InfoTests(ConsumerCase):
    def info(self, consumer: Consumer) -> dict[str, Any]:
        found: dict[str, Any] = fastjson.loads(fastjson.dumps_compact(consumer.running_info()))
        return found

    def test_a_heartbeat_says_what_is_wanted_and_how(self) -> None:
        for options, model, start in (
            ({}, "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET"),
            (
                {"broadcasting": True, "consume_from": ConsumeFrom.LAST},
                "BROADCASTING",
                "CONSUME_FROM_LAST_OFFSET",
            ),
        ):
            self.setUp()
            consumer = self.start(expression="b || a", **options)
            tags = {
                "classFilterMode": False,
                "codeSet": [97, 98],
                "expressionType": "TAG",
                "subString": "b || a",
                "subVersion": 1000000,
                "tagsSet": ["a", "b"],
                "topic": "T",
            }
            retries = tags | {"codeSet": [], "subString": "*", "tagsSet": [], "topic": RETRY}
            expected = {
                "consumeFromWhere": start,
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": "g",
                "messageModel": model,
                "subscriptionDataSet": [tags] if options else [tags, retries],
                "unitMode": False,
            }
            self.assertEqual(consumer.heartbeat(), expected)

    def test_running_info_row_by_row(self) -> None:
        self.master.counts = {0: 3, 1: 0}
        self.master.offsets = {("T", 0): 1}
        block: Waiter[None] = Waiter()
        consumer = self.start(lambda batch: block, orderly=True, batch=2)
        self.driver.pass_time(5)
        info = self.info(consumer)
        row = {
            "cachedMsgCount": 0,
            "cachedMsgMaxOffset": 0,
            "cachedMsgMinOffset": 0,
            "cachedMsgSizeInMiB": 0,
            "commitOffset": 0,
            "droped": False,
            "lastConsumeTimestamp": 1000_000,
            "lastLockTimestamp": 1000_000,
            "lastPullTimestamp": 1000_000,
            "locked": True,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": 0,
        }
        rows = {parse_queue_key(key): value for key, value in info["mqTable"].items()}
        self.assertEqual(
            [(each.topic, each.queue_id) for each in rows], [(RETRY, 0), (RETRY, 1), ("T", 0), ("T", 1)]
        )
        self.assertEqual(rows[T1], row)
        held = {"cachedMsgCount": 2, "cachedMsgMaxOffset": 2, "cachedMsgMinOffset": 1, "commitOffset": 1}
        self.assertEqual(rows[T0], row | held)
        properties = {
            "PROP_CLIENT_VERSION": "V4_9_7",
            "PROP_CONSUMEORDERLY": "true",
            "PROP_CONSUMER_START_TIMESTAMP": "1000000",
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_NAMESERVER_ADDR": f"{NAME_SERVER};10.0.0.8:9876",
            "PROP_THREADPOOL_CORE_SIZE": "1",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeMessageBatchMaxSize": "2",
            "consumerGroup": "g",
            "messageModel": "CLUSTERING",
        }
        self.assertEqual(info["properties"], properties)
        self.assertEqual([each["topic"] for each in info["subscriptionSet"]], ["T", RETRY])
        self.assertEqual(set(info["statusTable"]), {"T", RETRY})
        block.fire(None)
        rows = {parse_queue_key(key): value for key, value in self.info(consumer)["mqTable"].items()}
        self.assertEqual((rows[T0]["lastConsumeTimestamp"], rows[T0]["commitOffset"]), (1005_000, 3))

    def test_a_message_consumed_at_once_says_how_long_it_took(self) -> None:
        block: Waiter[None] = Waiter()
        self.start(lambda batch: block)
        asked = RemotingCommand(309, ext={"consumerGroup": "g", "brokerName": "a"}, body=stored(0, 5))
        answer = self.driver.ask(MASTER, asked)
        assert isinstance(answer, Waiter)
        self.driver.pass_time(2.5)
        block.fire(None)
        told = fastjson.loads(answer.result().body)
        expected = {"autoCommit": True, "consumeResult": "CR_SUCCESS", "order": False, "spentTimeMills": 2500}
        self.assertEqual(told, expected)
