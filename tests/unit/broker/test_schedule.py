"""Delivery of delayed messages over a real store, on a clock that the test turns."""

from itertools import pairwise
from pathlib import Path

from twisted.internet import task
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import Clock
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import TestCase

from hatwisted.broker.delay import schedule
from hatwisted.broker.delay.delayoffsets import DelayOffsets
from hatwisted.broker.delay.delayrouting import route_delayed
from hatwisted.broker.delay.schedule import (
    FIRST_DELAY,
    FIRST_PAUSE,
    MAX_BATCH,
    MAX_PAUSE,
    LevelDelivery,
    ScheduleService,
)
from hatwisted.broker.put.innerput import InnerMessage, InnerPuts
from hatwisted.broker.put.putack import PutAcks
from hatwisted.store.log.put import PutStatus
from hatwisted.wire.layout import SCHEDULE_TOPIC
from hatwisted.wire.recordreader import decode_record
from tests.support.golden import GOLDEN
from tests.unit.broker.rig import HOST, NOW, BrokerRig
from tests.unit.broker.test_putack import ManualFlush

LEVELS = (1000, 5000, 60_000)


class ScheduleCase(TestCase):
    """Verbs: `begin` a broker, `delay` messages, `pass_time`, `delivered`."""

    timeout = 50
    disk: ManualFlush | None = None

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.clock.advance(NOW)
        self.told: list[LogEvent] = []
        globalLogPublisher.addObserver(self.told.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.told.append)
        self.begin()

    def begin(self, levels=LEVELS, root=None):  # type: ignore[no-untyped-def]
        self.rig = BrokerRig(self, self.clock, root=root, delay_levels=levels)
        self.store, self.offsets = self.rig.store, self.rig.tables.delays
        acks = PutAcks(self.clock, self.disk or self.store.flush, 5.0, None)
        self.puts = InnerPuts(self.store, acks, HOST)
        self.schedule = ScheduleService(self.clock, self.store, self.puts, self.offsets)
        self.schedule.start()
        self.addCleanup(self.schedule.stop)
        self.pass_time(FIRST_DELAY)

    @inlineCallbacks
    def restart(self, levels=LEVELS):  # type: ignore[no-untyped-def]
        yield self.schedule.stop()
        root, rig = self.rig.root, self.rig
        yield rig.stop()
        rig.stop = lambda: None
        self._cleanups = [
            (do, *rest) for do, *rest in self._cleanups if getattr(do, "__self__", None) is not rig
        ]
        self.begin(levels, root)

    def delay(self, level, *bodies, topic="T", queue_id=1, **fields):  # type: ignore[no-untyped-def]
        """Store messages as a send with DELAY does."""
        for body in bodies:
            properties = {"TAGS": "t", "DELAY": str(level)}
            place = route_delayed(properties, topic, queue_id, self.store.delay_levels)
            self.puts.put(
                InnerMessage(
                    topic=place[0],
                    queue_id=place[1],
                    body=body,
                    properties=properties,
                    born_timestamp=7,
                    **fields,
                )
            )
        self.rig.turn()

    def pass_time(self, seconds):  # type: ignore[no-untyped-def]
        self.clock.advance(seconds)
        self.rig.turn()

    def records(self):  # type: ignore[no-untyped-def]
        found, at = [], self.store.log.min_offset
        while at < self.store.log.max_offset:
            found.append(decode_record(self.store.log.read(at, 1 << 20), check_crc=False, whole=True))
            at += found[-1].total_size
        return found

    def delivered(self, topic="T"):  # type: ignore[no-untyped-def]
        return [record.body for record in self.records() if record.topic == topic]


class ScheduleTests(ScheduleCase):
    def test_a_message_is_delivered_when_it_is_due_and_not_before(self) -> None:
        self.delay(2, b"five", flag=9, reconsume_times=2, born_host=b"\x0a\0\0\x01\0\0\0\x50")
        self.pass_time(4.9)
        self.assertEqual(self.delivered(), [])
        self.pass_time(0.1)
        stored, delivered = self.records()
        self.assertEqual((stored.topic, stored.queue_id), (SCHEDULE_TOPIC, 1))
        self.assertEqual((delivered.topic, delivered.queue_id, delivered.body), ("T", 1, b"five"))
        self.assertEqual((delivered.flag, delivered.reconsume_times, delivered.born_timestamp), (9, 2, 7))
        self.assertEqual(delivered.born_host, stored.born_host)
        self.assertEqual(delivered.raw_properties, stored.raw_properties)
        self.assertEqual(self.store.queue_offsets("T", 1), (0, 1))

    def test_levels_do_not_wait_for_each_other(self) -> None:
        self.delay(3, b"minute")
        self.delay(1, b"second")
        self.pass_time(1.5)
        self.assertEqual(self.delivered(), [b"second"])
        self.pass_time(60)
        self.assertEqual(self.delivered(), [b"second", b"minute"])

    def test_more_than_a_batch_is_delivered_in_order(self) -> None:
        bodies = [b"%d" % n for n in range(3 * MAX_BATCH + 1)]
        self.delay(1, *bodies)
        self.pass_time(1)
        self.assertEqual(self.delivered(), bodies)
        self.assertEqual(self.offsets.items(), [(1, len(bodies))])

    def test_a_slice_has_no_more_bytes_than_one_message_above_its_limit(self) -> None:
        self.patch(schedule, "MAX_BATCH_BYTES", 1000)
        slices: list[int] = []
        deliver = LevelDelivery._deliver

        def counted(delivery, batch):  # type: ignore[no-untyped-def]
            slices.append(len(batch))
            deliver(delivery, batch)

        self.patch(LevelDelivery, "_deliver", counted)
        self.delay(1, *[bytes(400)] * 9)  # with its fields a record has more than 500
        self.pass_time(1)
        self.assertEqual(slices, [2, 2, 2, 2, 1])
        self.assertEqual(len(self.delivered()), 9)

    def test_B104_delay_offsets_are_rocketmqs_bytes(self) -> None:
        self.delay(1, b"a", b"b", b"c")
        self.delay(2, b"d", b"e")
        self.pass_time(5)
        self.assertEqual(self.offsets.encode(), (GOLDEN / "master/config/delayOffset.json").read_bytes())
        self.assertEqual(self.offsets.encode_compact(), b'{"offsetTable":{"1":3,"2":2}}')
        self.pass_time(10)
        file = Path(self.rig.root, "config", "delayOffset.json")
        self.assertEqual(file.read_bytes(), self.offsets.encode())

    def test_runtime_info_shows_how_far_each_used_level_is(self) -> None:
        self.delay(1, b"a")
        self.pass_time(1)
        self.delay(1, b"b")
        self.assertEqual(self.schedule.figures(), {"scheduleMessageOffset_1": "1,2"})

    def test_a_level_above_the_highest_is_the_highest(self) -> None:
        self.delay(99, b"minute")
        (stored,) = self.records()
        self.assertEqual((stored.queue_id, stored.properties["DELAY"]), (2, "3"))
        self.pass_time(59)
        self.assertEqual(self.delivered(), [])
        self.pass_time(1)
        self.assertEqual(self.delivered(), [b"minute"])

    def test_idle_levels_do_nothing(self) -> None:
        self.delay(1, b"a")
        self.pass_time(1)
        turns = [call for call in self.clock.getDelayedCalls() if "LevelDelivery" in str(call)]
        self.assertEqual(turns, [])

    @inlineCallbacks
    def test_after_a_restart_delivery_goes_on_where_it_was(self):  # type: ignore[no-untyped-def]
        self.delay(1, b"a", b"b")
        self.pass_time(1)
        self.delay(2, b"c")
        yield self.restart()
        self.assertEqual(self.delivered(), [b"a", b"b"])
        self.pass_time(5)
        self.assertEqual(self.delivered(), [b"a", b"b", b"c"])

    @inlineCallbacks
    def test_a_crash_before_the_offset_is_written_repeats_and_loses_nothing(self):  # type: ignore[no-untyped-def]
        self.delay(1, b"a", b"b")
        self.pass_time(1)
        self.delay(1, b"c")
        self.offsets.set(1, 1)  # as the file may have it
        yield self.restart()
        self.pass_time(1)
        self.assertEqual(self.delivered(), [b"a", b"b", b"b", b"c"])

    @inlineCallbacks
    def test_a_shortened_list_of_levels_strands_no_message(self):  # type: ignore[no-untyped-def]
        self.delay(3, b"minute")
        yield self.restart(LEVELS[:1])
        self.pass_time(50)
        self.assertEqual(self.delivered(), [])
        self.pass_time(10)
        self.assertEqual(self.delivered(), [b"minute"])

    @inlineCallbacks
    def test_a_deliver_time_beyond_the_levels_delay_is_now(self):  # type: ignore[no-untyped-def]
        self.delay(3, b"minute")
        yield self.restart((1000, 5000, 10_000))
        self.assertEqual(self.delivered(), [b"minute"])

    @inlineCallbacks
    def test_an_offset_beyond_the_queue_does_not_swallow_what_comes(self):  # type: ignore[no-untyped-def]
        self.offsets.set(1, 7)
        yield self.restart()
        self.delay(1, b"a")
        self.pass_time(1)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a"], 1))

    def test_what_has_no_real_place_is_reported_once_and_passed(self) -> None:
        for properties in ({}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "-1"}):
            message = InnerMessage(
                topic=SCHEDULE_TOPIC, queue_id=0, body=b"x", properties=properties, born_timestamp=0
            )
            self.puts.put(message)
        self.delay(1, b"good")
        self.pass_time(3)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"good"], 4))
        self.assertEqual(len([event for event in self.told if "are skipped" in event["log_format"]]), 1)

    def test_properties_that_end_in_a_zero_byte_are_no_damage(self) -> None:
        """RocketMQ writes a message's own after those of its real place, as it happens."""
        properties = {"REAL_TOPIC": "T", "REAL_QID": "1", "own": "ends so\0"}
        self.puts.put(
            InnerMessage(
                topic=SCHEDULE_TOPIC, queue_id=0, body=b"whole", properties=properties, born_timestamp=0
            )
        )
        self.delay(1, b"good")
        self.pass_time(3)
        self.assertEqual(self.delivered(), [b"whole", b"good"])

    def test_a_damaged_record_is_passed(self) -> None:
        self.delay(1, b"damaged!", b"good")
        path = min(Path(self.rig.root, "commitlog").iterdir())
        data = path.read_bytes()
        path.write_bytes(data.replace(b"damaged!", b"DAMAGED!", 1))
        self.pass_time(1)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"good"], 2))

    def test_a_disk_that_cannot_be_read_is_reported_once_and_tried_again(self) -> None:
        self.delay(1, b"a")

        def broken(offset: int) -> bytes:
            raise OSError(5, "Input/output error")

        unbroken = self.patch(self.store, "look_message", broken)
        self.pass_time(30)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([], 0))
        told = [event for event in self.told if "can't be delivered now" in event["log_format"]]
        self.assertEqual(len(told), 1)
        unbroken.restore()
        self.pass_time(MAX_PAUSE)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a"], 1))

    def test_what_nobody_has_thought_of_is_reported_once_and_the_level_lives_on(self) -> None:
        self.delay(1, b"a")

        def broken(offset: int) -> bytes:
            raise RuntimeError("out of luck")

        unbroken = self.patch(self.store, "look_message", broken)
        self.pass_time(30)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([], 0))
        (failure,) = self.flushLoggedErrors(RuntimeError)
        told = [event for event in self.told if "can't be delivered now" in event["log_format"]]
        self.assertEqual([event["reason"] for event in told], ["RuntimeError: out of luck"])
        unbroken.restore()
        self.pass_time(MAX_PAUSE)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a"], 1))

    def test_a_put_that_fails_is_reported_once_and_the_level_lives_on(self) -> None:
        self.delay(1, b"a")

        def broken(puts):  # type: ignore[no-untyped-def]
            raise RuntimeError("out of luck")

        unbroken = self.patch(self.store, "append", broken)
        self.pass_time(30)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        unbroken.restore()
        self.pass_time(MAX_PAUSE)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a"], 1))

    @inlineCallbacks
    def test_a_clock_that_was_ahead_does_not_block_a_level_that_is_gone(self):  # type: ignore[no-untyped-def]
        year = 365 * 86400
        self.set_log_clock(year)
        self.delay(3, b"from the future")
        yield self.restart(LEVELS)
        self.delay(3, b"minute")
        yield self.restart(LEVELS[:1])
        self.assertEqual(self.delivered(), [b"from the future"])
        self.pass_time(60)
        self.assertEqual(self.delivered(), [b"from the future", b"minute"])

    def test_a_clock_set_back_a_little_delivers_a_little_late_and_not_at_once(self) -> None:
        self.set_log_clock(20)
        self.delay(3, b"minute")
        self.delay(2, b"five")
        self.pass_time(0)
        self.assertEqual(self.delivered(), [b"five"])
        self.pass_time(60)
        self.assertEqual(self.delivered(), [b"five"])
        self.pass_time(20)
        self.assertEqual(self.delivered(), [b"five", b"minute"])

    def set_log_clock(self, ahead: float) -> None:
        """Let what is stored be from so many seconds ahead."""
        clock = task.Clock()
        clock.advance(self.clock.seconds() + ahead)
        self.store.log._clock = clock

    def test_no_message_goes_back_into_the_schedule_or_half_topic(self) -> None:
        self.delay(1, b"round", topic=SCHEDULE_TOPIC)
        self.delay(1, b"half", topic="RMQ_SYS_TRANS_HALF_TOPIC")
        self.pass_time(2)
        self.assertEqual((len(self.records()), self.offsets.get(1)), (2, 2))


class RefusingTests(ScheduleCase):
    """A master with SYNC_FLUSH, whose disk the test moves."""

    def setUp(self) -> None:
        self.disk = ManualFlush(Clock(), waits=True)
        super().setUp()

    def sync(self) -> None:
        assert self.disk is not None
        self.disk.line.advance(self.store.log.max_offset)
        self.rig.turn()

    def test_a_master_that_refuses_puts_keeps_its_place(self) -> None:
        self.delay(1, b"a")
        self.store.log.stopped_reason = "the disk is full"
        self.pass_time(100)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([], 0))
        self.store.log.stopped_reason = None
        self.pass_time(MAX_PAUSE)
        self.sync()
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a"], 1))

    def test_pauses_after_refusals_begin_short_and_end_long(self) -> None:
        tried: list[float] = []

        def refusal() -> str:
            tried.append(self.clock.seconds())
            return "the disk is full"

        self.delay(1, b"a")
        self.patch(self.store, "refusal", refusal)
        for _ in range(4000):
            self.pass_time(FIRST_PAUSE / 4)
        pauses = [later - earlier for earlier, later in pairwise(tried)]
        self.assertAlmostEqual(pauses[0], FIRST_PAUSE, 1)
        self.assertAlmostEqual(pauses[-1], MAX_PAUSE, 1)
        self.assertEqual(sorted(pauses[:5]), pauses[:5])

    def test_the_offset_moves_when_the_disk_has_it(self) -> None:
        self.delay(1, b"a")
        self.pass_time(1)
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a"], 0))
        self.sync()
        self.assertEqual(self.offsets.get(1), 1)

    def test_stored_ones_of_a_half_refused_batch_are_not_repeated(self) -> None:
        refused = [b"b"]
        append = self.store.append

        def refuse_some(puts):  # type: ignore[no-untyped-def]
            for put in puts:
                if put.topic == "T" and put.entries[0][1] in refused:
                    put.refuse(PutStatus.SERVICE_NOT_AVAILABLE, "not now")
            append([put for put in puts if put.status is None])

        self.patch(self.store, "append", refuse_some)
        self.delay(1, b"a", b"b", b"c")
        self.pass_time(1)
        self.sync()
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a", b"c"], 1))
        refused.clear()
        self.pass_time(1)
        self.sync()
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"a", b"c", b"b"], 3))

    def test_what_the_log_will_never_take_is_passed(self) -> None:
        self.delay(1, b"big" * 100, b"small")
        self.store.log.limits.max_message_size = 50
        self.pass_time(1)
        self.sync()
        self.assertEqual((self.delivered(), self.offsets.get(1)), ([b"small"], 2))

    def test_stopping_waits_for_the_batch_on_its_way(self) -> None:
        self.delay(1, b"a", b"b")
        self.pass_time(1)
        stopping = self.schedule.stop()
        self.assertNoResult(stopping)
        self.sync()
        self.successResultOf(stopping)
        self.assertEqual(self.offsets.get(1), 2)
        self.delay(1, b"c")
        self.pass_time(5)
        self.assertEqual(self.delivered(), [b"a", b"b"])


class DelayOffsetsTests(TestCase):
    def test_fields_of_a_newer_version_are_kept(self) -> None:
        offsets = DelayOffsets()
        offsets.decode(b'{"dataVersion":{"counter":3},"offsetTable":{1:7}}')
        offsets.set(2, 4)
        self.assertEqual(
            offsets.encode_compact(), b'{"dataVersion":{"counter":3},"offsetTable":{"1":7,"2":4}}'
        )

    def test_what_is_no_table_is_refused_and_changes_nothing(self) -> None:
        offsets = DelayOffsets()
        offsets.set(1, 5)
        for text in (b"[]", b'{"offsetTable":[]}', b'{"offsetTable":{"x":1}}', b'{"offsetTable":{"1":null}}'):
            self.assertRaises(ValueError, offsets.decode, text)
        self.assertEqual(offsets.items(), [(1, 5)])
