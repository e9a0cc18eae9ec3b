"""A range of a queue is read whole from whoever has it, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from unittest import TestCase

from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import BrokerGone, OffsetsGone, OffsetsNotFound, Refused
from hatwisted.clientcore.pullprogress import PullTerms
from hatwisted.pipeline.remote.pullanswer import PullRequest, cut_records
from hatwisted.pipeline.remote.queuepull import WINDOW, PullOptions, QueuePull, QueueRange
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.messagequeue import MessageQueue
from hatwisted.wire.remoting import RemotingCommand, encode_command
from tests.support.scriptedgroup import (
    BROKER,
    HANG_UP,
    SILENCE,
    TOPIC,
    ScriptedBroker,
    ScriptedNameServer,
    record,
    response,
)

QUEUE = MessageQueue(broker_name=BROKER, queue_id=0, topic=TOPIC)


class GroupCase(TestCase):
    """A master, a slave and a name server; pauses are counted, not waited for."""

    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.pauses: list[float] = []

    def start(
        self, master: ScriptedBroker | None, slave: ScriptedBroker | None = None, **settings: object
    ) -> BlockingDriver:
        self.replicas: dict[int, str] = {}
        for number, broker in enumerate((master, slave)):
            if broker is not None:
                self.stack.enter_context(broker)
                self.replicas[number] = broker.address
        self.names = self.stack.enter_context(ScriptedNameServer(self.replicas))
        plain = ClusterSettings(
            name_servers=(self.names.address,), connect_timeout=30.0, answer_timeout=30.0, retries=3
        )
        links = Links(replace(plain, **settings), sleep=self.pauses.append)  # type: ignore[arg-type]
        return self.stack.enter_context(BlockingDriver(links))

    def pull(self, driver: BlockingDriver, begin: int, end: int, **options: Any) -> Iterator[int]:
        wanted = QueueRange(QUEUE, begin, end, self.replicas)
        for chunk in QueuePull(driver, wanted, PullOptions(**options)).chunks():
            asked = PullRequest("", 0, 0, 1 << 62)
            yield from cut_records(asked, bytes(chunk))[1]


class WholeRangeTest(GroupCase):
    def test_a_range_comes_in_order_from_the_slave(self) -> None:
        master, slave = ScriptedBroker(range(1000)), ScriptedBroker(range(1000), slave=True)
        driver = self.start(master, slave)
        self.assertEqual(list(self.pull(driver, 3, 998)), list(range(3, 998)))
        self.assertEqual(master.requests, [])
        self.assertEqual(slave.connections, 1)

    def test_read_from_master_leaves_the_slave_alone(self) -> None:
        master, slave = ScriptedBroker(range(100)), ScriptedBroker(range(100), slave=True)
        driver = self.start(master, slave, read_from="master")
        self.assertEqual(list(self.pull(driver, 0, 100)), list(range(100)))
        self.assertEqual(slave.requests, [])

    def test_short_answers_are_completed(self) -> None:
        for most in (1, 7, 31):
            master = ScriptedBroker(range(300), most=most)
            driver = self.start(master)
            self.assertEqual(list(self.pull(driver, 0, 300)), list(range(300)))

    def test_several_pulls_are_under_way_at_once(self) -> None:
        """The broker answers nothing before it has the whole window: only a reader that asks ahead goes on."""
        master = ScriptedBroker(range(32 * WINDOW))
        held: list[RemotingCommand] = []

        def script(request: RemotingCommand) -> object:
            held.append(request)
            if len(held) < WINDOW:
                return SILENCE
            for each in held[:-1]:
                master._sockets[0].sendall(encode_command(master.answer(each)))
            return None

        master.script = script
        driver = self.start(master, retries=0)
        self.assertEqual(list(self.pull(driver, 0, 32 * WINDOW)), list(range(32 * WINDOW)))
        self.assertEqual(master.pulls(), [32 * step for step in range(WINDOW)])

    def test_records_after_the_range_are_cut_off(self) -> None:
        """A broker that passes over a hole gives as many as were asked for, from after the range."""
        offsets = [*range(10), *range(20, 60)]
        driver = self.start(ScriptedBroker(offsets))
        self.assertEqual(list(self.pull(driver, 5, 25)), [*range(5, 10), *range(20, 25)])

    def test_an_empty_range_asks_nobody(self) -> None:
        master = ScriptedBroker(range(5))
        driver = self.start(master)
        self.assertEqual(list(self.pull(driver, 3, 3)), [])
        self.assertEqual(master.requests, [])


class FallbackTest(GroupCase):
    def test_a_slave_that_is_behind_gives_what_it_has(self) -> None:
        master, slave = ScriptedBroker(range(200)), ScriptedBroker(range(120), slave=True)
        driver = self.start(master, slave)
        self.assertEqual(list(self.pull(driver, 0, 200)), list(range(200)))
        self.assertEqual(min(master.pulls()), 120)
        self.assertEqual(self.pauses, [])

    def test_a_slave_that_began_later_gives_what_it_has(self) -> None:
        master, slave = ScriptedBroker(range(200)), ScriptedBroker(range(120, 200), slave=True)
        driver = self.start(master, slave)
        self.assertEqual(list(self.pull(driver, 0, 200)), list(range(200)))
        self.assertEqual(self.pauses, [])

    def test_a_slave_that_refuses_pulls(self) -> None:
        """5.3.3's do, unless slaveReadEnable is set."""
        master, slave = ScriptedBroker(range(50)), ScriptedBroker(range(50), slave=True)
        slave.script = lambda request: response(request, ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]")
        driver = self.start(master, slave)
        self.assertEqual(list(self.pull(driver, 0, 50)), list(range(50)))

    def test_a_dead_slave(self) -> None:
        master, slave = ScriptedBroker(range(50)), ScriptedBroker(range(50), slave=True)
        driver = self.start(master, slave)
        slave.stop()
        self.assertEqual(list(self.pull(driver, 0, 50)), list(range(50)))

    def test_a_slave_that_dies_in_the_middle(self) -> None:
        master, slave = ScriptedBroker(range(1000)), ScriptedBroker(range(1000), slave=True)
        slave.script = lambda request: HANG_UP if len(slave.requests) > 20 else None
        driver = self.start(master, slave)
        self.assertEqual(list(self.pull(driver, 0, 1000)), list(range(1000)))
        self.assertGreater(len(master.requests), 0)

    def test_a_master_that_comes_back(self) -> None:
        master = ScriptedBroker(range(1000))
        hang_ups = iter(range(3))
        master.script = lambda request: (
            HANG_UP if len(master.requests) > 10 and next(hang_ups, None) is not None else None
        )
        driver = self.start(master)
        self.assertEqual(list(self.pull(driver, 0, 1000)), list(range(1000)))
        self.assertEqual(self.pauses, [0.1, 0.2, 0.4])

    def test_a_master_that_has_moved(self) -> None:
        """The address of the plan is dead; the name server knows the new one."""
        old, new = ScriptedBroker(range(50)), ScriptedBroker(range(50))
        driver = self.start(old)
        self.stack.enter_context(new)
        old.stop()
        self.names.brokers = {0: new.address}
        self.assertEqual(list(self.pull(driver, 0, 50)), list(range(50)))

    def test_nonsense_from_a_broker_is_no_data(self) -> None:
        master, slave = ScriptedBroker(range(50)), ScriptedBroker(range(50), slave=True)
        good = record(0)
        for nonsense in (good[:-1], good[:20], b"x" * 200, record(0, queue_id=1), record(0) + record(0)):
            slave.script = lambda request, body=nonsense: response(  # type: ignore[misc]
                request, 0, "FOUND", body, nextBeginOffset=32, minOffset=0, maxOffset=50
            )
            driver = self.start(master, slave)
            self.assertEqual(list(self.pull(driver, 0, 50)), list(range(50)))

    def test_auto_follows_suggestions(self) -> None:
        master, slave = ScriptedBroker(range(2000)), ScriptedBroker(range(2000), slave=True)
        master.suggested = slave.suggested = 1
        driver = self.start(master, slave, read_from="auto")
        self.assertEqual(list(self.pull(driver, 0, 2000)), list(range(2000)))
        self.assertLess(len(master.requests), 20)
        self.assertGreater(len(slave.requests), 50)

    def test_auto_is_not_sent_around_for_ever(self) -> None:
        master, slave = ScriptedBroker(range(2000)), ScriptedBroker(range(2000), slave=True)
        master.suggested, slave.suggested = 1, 0
        driver = self.start(master, slave, read_from="auto")
        self.assertEqual(list(self.pull(driver, 0, 2000)), list(range(2000)))
        self.assertLess(master.connections + slave.connections, 12)


class NothingPartialTest(GroupCase):
    def test_everybody_gone_is_one_error(self) -> None:
        master = ScriptedBroker(range(1000))
        master.script = lambda request: HANG_UP if len(master.requests) > 10 else None
        driver = self.start(master)
        got = self.pull(driver, 0, 1000)
        with self.assertRaises(BrokerGone) as caught:
            list(got)
        self.assertRegex(
            str(caught.exception), r"topic Orders queue 0 of broker-a at offset \d+ of 1000: 127.0.0.1"
        )
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(len(self.pauses), 3)

    def test_patience_outlasts_the_retries(self) -> None:
        master = ScriptedBroker(range(50))
        master.script = lambda request: HANG_UP if len(self.pauses) < 12 else None
        driver = self.start(master)
        self.assertEqual(list(self.pull(driver, 0, 50, patience=60.0)), list(range(50)))
        self.assertEqual(len(self.pauses), 12)

    def test_and_ends(self) -> None:
        master = ScriptedBroker(range(50))
        master.script = lambda request: HANG_UP
        driver = self.start(master)
        with self.assertRaises(BrokerGone):
            list(self.pull(driver, 0, 50, patience=20.0))
        self.assertTrue(15.0 < sum(self.pauses) < 21.0, self.pauses)

    def test_patience_is_for_absence_alone(self) -> None:
        driver = self.start(ScriptedBroker(range(50)))
        with self.assertRaises(OffsetsNotFound):
            list(self.pull(driver, 0, 60, patience=60.0))
        self.assertEqual(len(self.pauses), 3)

    def test_messages_gone_by_retention_are_an_error(self) -> None:
        driver = self.start(ScriptedBroker(range(40, 100)), ScriptedBroker(range(40, 100), slave=True))
        with self.assertRaisesRegex(OffsetsGone, "messages 7 to 39 are gone.*failOnDataLoss=false"):
            list(self.pull(driver, 7, 100))

    def test_the_advice_is_where_messages_begin(self) -> None:
        """All of the range is gone, and more behind it."""
        driver = self.start(ScriptedBroker(range(200, 300)))
        with self.assertRaisesRegex(OffsetsGone, "messages 7 to 99 are gone by retention: begin at 200,"):
            list(self.pull(driver, 7, 100))

    def test_or_passed_over_if_that_is_wanted(self) -> None:
        driver = self.start(ScriptedBroker(range(40, 100)), ScriptedBroker(range(50, 100), slave=True))
        with self.assertLogs("hatwisted.pipeline.remote", "WARNING") as told:
            self.assertEqual(list(self.pull(driver, 7, 100, fail_on_loss=False)), list(range(40, 100)))
        self.assertIn("messages 7 to 39 are gone", told.output[0])

    def test_all_of_the_range_gone(self) -> None:
        driver = self.start(ScriptedBroker(range(200, 300)))
        with self.assertLogs("hatwisted.pipeline.remote", "WARNING"):
            self.assertEqual(list(self.pull(driver, 7, 100, fail_on_loss=False)), [])

    def test_retention_in_its_middle_is_waited_for(self) -> None:
        """A log file is gone already, the queue's least offset hasn't moved yet."""
        master = ScriptedBroker([0, *range(40, 100)])
        del master.messages[0]
        driver = self.start(master)
        driver.pause = lambda seconds: setattr(master, "low", 40)  # type: ignore[method-assign]
        with self.assertRaisesRegex(OffsetsGone, "messages 0 to 39 are gone"):
            list(self.pull(driver, 0, 100))

    def test_holes_are_no_loss(self) -> None:
        """A queue whose middle offsets have no message; one pause finds out, not one a hole."""
        offsets = [0, *range(100, 150), *range(400, 420), 900]
        driver = self.start(ScriptedBroker(offsets))
        self.assertEqual(list(self.pull(driver, 0, 901)), offsets)
        self.assertLessEqual(len(self.pauses), 1)

    def test_only_the_master_can_say_that_messages_are_gone(self) -> None:
        """The slave lacks them; a master that's away may have them."""
        master = ScriptedBroker(range(100))
        driver = self.start(master, ScriptedBroker(range(40, 100), slave=True))
        master.stop()
        with self.assertRaises(BrokerGone):
            list(self.pull(driver, 0, 100, fail_on_loss=False))

    def test_offsets_beyond_the_end_are_an_error(self) -> None:
        driver = self.start(ScriptedBroker(range(100)), ScriptedBroker(range(90), slave=True))
        with self.assertRaisesRegex(OffsetsNotFound, "at offset 100 of 120.*was the topic deleted"):
            list(self.pull(driver, 0, 120))
        self.assertEqual(len(self.pauses), 3)

    def test_messages_that_come_in_time_are_read(self) -> None:
        master = ScriptedBroker(range(100))
        driver = self.start(master)
        driver.pause = lambda seconds: self._grow(master)  # type: ignore[method-assign]
        self.assertEqual(list(self.pull(driver, 0, 120)), list(range(120)))

    def _grow(self, broker: ScriptedBroker) -> None:
        broker.messages |= {offset: record(offset) for offset in range(broker.high, broker.high + 10)}
        broker.high += 10

    def test_a_lasting_refusal_is_reported_at_once(self) -> None:
        master = ScriptedBroker(range(100))
        master.script = lambda request: response(request, ResponseCode.NO_PERMISSION, "pulling is\nforbidden")
        driver = self.start(master)
        with self.assertRaisesRegex(
            Refused, "refuses a pull from queue 0: code 16 NO_PERMISSION: pulling is forb"
        ):
            list(self.pull(driver, 0, 100))
        self.assertEqual(self.pauses, [])

    def test_a_passing_refusal_is_tried_again(self) -> None:
        master = ScriptedBroker(range(10))
        master.script = lambda request: (
            response(request, ResponseCode.SYSTEM_BUSY, "[OVERLOAD]") if len(master.requests) < 3 else None
        )
        driver = self.start(master)
        self.assertEqual(list(self.pull(driver, 0, 10)), list(range(10)))
        self.assertEqual(self.pauses, [0.1, 0.2])


class RequestTest(GroupCase):
    def test_a_pull_commits_nothing_and_waits_for_nothing(self) -> None:
        master = ScriptedBroker(range(10))
        driver = self.start(master)
        list(self.pull(driver, 0, 10))
        (request,) = master.requests
        self.assertEqual(request.code, RequestCode.PULL_MESSAGE)
        self.assertEqual(request.ext["sysFlag"], "4")
        self.assertEqual(request.ext["consumerGroup"], "TOOLS_CONSUMER")
        self.assertEqual((request.ext["queueOffset"], request.ext["maxMsgNums"]), ("0", "10"))


class FilterTest(GroupCase):
    """Brokers that leave messages out by their tags."""

    def tagged(self, offsets: Iterable[int], every: int) -> ScriptedBroker:
        """Each so manieth message is tagged `a`, the others `b`."""
        broker = ScriptedBroker(offsets)
        broker.tags = {offset: "b" if offset % every else "a" for offset in broker.messages}
        return broker

    def filtered(self, driver: BlockingDriver, begin: int, end: int, **options: Any) -> list[int]:
        return list(self.pull(driver, begin, end, terms=PullTerms(expression="a || c"), **options))

    def test_only_what_matches_comes(self) -> None:
        for every in (1, 2, 33, 700, 5000):
            master = self.tagged(range(3000), every)
            driver = self.start(master)
            got = self.filtered(driver, 5, 2990)
            self.assertEqual(got, [each for each in range(5, 2990) if each % every == 0], str(every))
        self.assertLess(len(master.pulls()), 12)
        self.assertEqual(self.pauses, [])

    def test_nothing_that_retention_took_meanwhile_is_left_out_silently(self) -> None:
        """A log file is gone and its messages with it; the queue's least offset follows a moment later."""
        master = self.tagged(range(1000), 10)
        for offset in range(300):
            del master.messages[offset]
        driver = self.start(master)
        driver.pause = lambda seconds: setattr(master, "low", 300)  # type: ignore[method-assign]
        with self.assertRaisesRegex(OffsetsGone, "messages 0 to 299 are gone by retention: begin at 300"):
            self.filtered(driver, 0, 1000)
        master.low = 0
        with self.assertLogs("hatwisted.pipeline.remote", "WARNING"):
            got = self.filtered(driver, 0, 1000, fail_on_loss=False)
        self.assertEqual(got, list(range(300, 1000, 10)))

    def test_holes_are_no_loss(self) -> None:
        master = self.tagged([*range(50, 300), *range(2000, 2010)], 10)
        master.low = 0
        driver = self.start(master)
        got = self.filtered(driver, 0, 2010)
        self.assertEqual(got, [*range(50, 300, 10), 2000])
        self.assertLessEqual(len(self.pauses), 1)

    def test_another_broker_goes_on(self) -> None:
        master, slave = self.tagged(range(3000), 7), self.tagged(range(3000), 7)
        slave.slave = True
        slave.script = lambda request: HANG_UP if len(slave.pulls()) > 3 else None
        driver = self.start(master, slave)
        with self.assertRaises(BrokerGone):
            self.filtered(driver, 0, 3000)
        # The slave is back in time to be asked whether anything was gone.
        slave.requests.clear()
        slave.script = lambda request: HANG_UP if len(self.pauses) < 2 and len(slave.pulls()) > 3 else None
        self.pauses.clear()
        self.assertEqual(self.filtered(driver, 0, 3000), list(range(0, 3000, 7)))
