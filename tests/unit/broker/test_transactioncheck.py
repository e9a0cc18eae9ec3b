"""The check of undecided transactions over a real store, on a clock that the test turns."""

import json
from dataclasses import replace
from math import ceil

from twisted.internet.defer import inlineCallbacks

from hatwisted.broker.consumer.consumeroffset import CHECK_GROUP
from hatwisted.broker.transaction.halfmessages import committed
from hatwisted.broker.transaction.transactioncheck import (
    PATIENCE,
    READ_PAUSE,
    SLICE,
    CheckOptions,
    TransactionCheck,
)
from hatwisted.wire.layout import HALF_TOPIC, MAX_PROPERTIES_LENGTH, OP_HALF_TOPIC
from hatwisted.wire.record import decode_record
from hatwisted.wire.topics import MAX_CHECKS_TOPIC
from tests.unit.broker.rig import GroupMember
from tests.unit.broker.test_endtransaction import COMMIT, PREPARED, ROLLBACK, TransactionCase

OPTIONS = CheckOptions(interval=60.0, timeout=6.0, max_checks=3, reserved=72 * 3600.0)


class TransactionCheckTests(TransactionCase):
    def begin(self, root=None):  # type: ignore[no-untyped-def]
        super().begin(root)
        self.check = TransactionCheck(
            self.clock,
            self.store,
            self.puts,
            self.tables,
            self.rig.consumers.clients,
            OPTIONS,
        )
        self.check.start()
        self.addCleanup(self.check.stop)

    @inlineCallbacks
    def producer(self):  # type: ignore[no-untyped-def]
        client = yield GroupMember.connected(self.rig)
        yield self.beat(client)
        return client

    def beat(self, client):  # type: ignore[no-untyped-def]
        body = {"clientID": "p1", "consumerDataSet": [], "producerDataSet": [{"groupName": "g"}]}
        return client.ask(34, json.dumps(body).encode())

    def round(self, seconds=60):  # type: ignore[no-untyped-def]
        self.clock.advance(seconds)
        for _ in range(5):
            self.rig.turn()

    def progress(self):  # type: ignore[no-untyped-def]
        query = self.tables.offsets.query
        return query(CHECK_GROUP, HALF_TOPIC, 0), query(CHECK_GROUP, OP_HALF_TOPIC, 0)

    @inlineCallbacks
    def test_an_undecided_half_is_parked_again_and_its_producer_asked(self):  # type: ignore[no-untyped-def]
        client = yield self.producer()
        yield self.send_half()
        self.round()
        (asked,) = yield client.asked()
        parked = self.records(HALF_TOPIC)[1]
        self.assertEqual(parked.properties["TRANSACTION_CHECK_TIMES"], "1")
        self.assertEqual((asked.code, asked.flag & 2), (39, 2))
        self.assertEqual(asked.ext["tranStateTableOffset"], "1")
        self.assertEqual(asked.ext["commitLogOffset"], str(parked.physical_offset))
        self.assertEqual((asked.ext["msgId"], asked.ext["transactionId"]), ("U1", "U1"))
        shown = decode_record(asked.body)
        self.assertEqual((shown.topic, shown.queue_id, shown.body), ("T", 2, b"half"))
        self.assertEqual(self.progress()[0], 1)
        answer = yield self.end((1, parked.physical_offset))
        self.assertEqual((answer.code, len(self.records("T"))), (0, 1))
        self.rig.turn()
        self.round()
        self.assertEqual((self.progress(), len(client.requests)), ((2, 1), 1))

    @inlineCallbacks
    def test_a_producer_that_does_not_read_is_asked_nothing(self):  # type: ignore[no-untyped-def]
        """Each question has a whole message with it: many would fill the memory of whoever writes them."""
        client = yield self.producer()
        (connection,) = self.rig.consumers.clients.producers["g"]
        yield self.send_half()
        connection.pauseProducing()
        self.round()
        self.assertEqual(len(self.records(HALF_TOPIC)), 1)  # it may read again soon
        for _ in range(ceil(PATIENCE / READ_PAUSE)):
            self.round(READ_PAUSE)
        connection.resumeProducing()
        yield self.beat(client)
        self.assertEqual((self.progress()[0], client.requests), (1, []))
        self.round()
        self.assertEqual(len((yield client.asked())), 1)

    @inlineCallbacks
    def test_a_producer_with_more_halves_than_its_buffers_hold_is_asked_about_all_in_a_round(self):  # type: ignore[no-untyped-def]
        client = yield self.producer()
        (connection,) = self.rig.consumers.clients.producers["g"]
        for _ in range(3):
            yield self.send_half()
        send = connection.send

        def filling(data):  # type: ignore[no-untyped-def]
            send(data)
            connection.pauseProducing()

        self.patch(connection, "send", filling)
        self.round()
        for _ in range(4):
            connection.resumeProducing()
            self.round(READ_PAUSE)
        self.assertEqual(len((yield client.asked(3))), 3)

    @inlineCallbacks
    def test_decided_halves_are_passed_in_slices_and_the_young_wait(self):  # type: ignore[no-untyped-def]
        halves = []
        for number in range(2 * SLICE + 3):
            halves.append((yield self.send_half()))
            yield self.end(halves[-1], COMMIT if number % 2 else ROLLBACK)
        self.rig.turn()
        self.clock.advance(55)
        yield self.send_half(b"young")
        self.round(5)
        self.assertEqual(self.progress(), (len(halves), len(halves)))
        self.assertEqual(len(self.records(HALF_TOPIC)), len(halves) + 1)

    @inlineCallbacks
    def test_B97a_without_a_producer_it_is_tried_again_up_to_the_limit(self):  # type: ignore[no-untyped-def]
        yield self.send_half()
        for _ in range(OPTIONS.max_checks):
            self.round()
        self.assertEqual(self.records(MAX_CHECKS_TOPIC), [])
        self.round()
        (given_up,) = self.records(MAX_CHECKS_TOPIC)
        self.assertEqual(given_up.body, b"half")
        self.assertEqual(given_up.properties["TRANSACTION_CHECK_TIMES"], "3")
        self.round()
        self.assertEqual(len(self.records()), 5)

    @inlineCallbacks
    def test_a_half_that_can_never_be_parked_again_is_asked_about_once_and_holds_up_no_other(self):  # type: ignore[no-untyped-def]
        """Its properties have no room for a count; or maxMessageSize has been lowered since it was sent."""
        client = yield self.producer()
        yield self.send_half()
        room = MAX_PROPERTIES_LENGTH - len(self.records(HALF_TOPIC)[0].raw_properties) - len("\x02p\x01")
        for more in ("", "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01900"):
            yield self.send_half(b"full", f"{PREPARED}{more}\x02p\x01{'x' * (room - len(more))}")
        yield self.send_half(bytes(3000))
        self.store.log.limits.max_message_size = 2000
        yield self.send_half()
        self.round()
        asked = yield client.asked(5)
        self.assertEqual([each.ext["tranStateTableOffset"] for each in asked], ["5", "1", "2", "3", "6"])
        self.assertEqual(decode_record(asked[3].body).body, bytes(3000))
        self.assertEqual([record.body for record in self.records(MAX_CHECKS_TOPIC)], [b"full", b"full"])
        self.assertEqual(self.progress()[0], 5)
        answer = yield self.end((1, int(asked[1].ext["commitLogOffset"])))
        self.assertEqual((answer.code, len(self.records("T"))), (0, 1))

    @inlineCallbacks
    def test_a_half_is_asked_about_however_old_a_clock_that_leaps_makes_it(self):  # type: ignore[no-untyped-def]
        half = yield self.send_half()
        self.clock.rightNow += 100 * 24 * 3600.0
        client = yield self.producer()
        self.round()
        yield client.asked()
        self.assertEqual(self.records(MAX_CHECKS_TOPIC), [])
        answer = yield self.end(half)
        self.assertEqual((answer.code, len(self.records("T"))), (0, 1))

    @inlineCallbacks
    def test_it_is_given_up_after_as_long_a_time_of_asking_as_files_are_kept(self):  # type: ignore[no-untyped-def]
        self.check._options = replace(OPTIONS, max_checks=1000, reserved=90.0)
        yield self.send_half()
        for _ in range(2):
            self.round()
            self.assertEqual(self.records(MAX_CHECKS_TOPIC), [])
        self.round()
        (given_up,) = self.records(MAX_CHECKS_TOPIC)
        self.assertEqual(given_up.body, b"half")

    @inlineCallbacks
    def test_nobody_is_spared_questions_for_longer_than_files_are_kept(self):  # type: ignore[no-untyped-def]
        self.check._options = replace(OPTIONS, reserved=90.0)
        yield self.send_half(properties=PREPARED + "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01999999999")
        self.round()
        self.assertNotIn("TRANSACTION_CHECK_TIMES", self.records(HALF_TOPIC)[1].properties)
        client = yield self.producer()
        self.round()
        yield client.asked()

    @inlineCallbacks
    def test_a_half_stored_by_a_clock_that_was_ahead_is_asked_about(self):  # type: ignore[no-untyped-def]
        """That clock is right again, or another broker is master now: this one's times lie ahead for months."""
        yield self.check.stop()
        self.clock.rightNow += 5 * 3600.0
        yield self.send_half()
        self.clock.rightNow -= 5 * 3600.0
        self.check.start()
        yield self.send_half(b"later")
        self.round()
        self.assertEqual((self.progress()[0], len(self.records(HALF_TOPIC))), (2, 4))

    @inlineCallbacks
    def test_nor_for_as_long_as_its_producers_clock_is_ahead(self):  # type: ignore[no-untyped-def]
        born = int((self.clock.seconds() + 100 * 24 * 3600.0) * 1000)
        yield self.send(4, PREPARED + "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0130", g=str(born))
        self.rig.turn()
        self.round()
        self.assertEqual(self.records(HALF_TOPIC)[1].properties.get("TRANSACTION_CHECK_TIMES"), "1")

    @inlineCallbacks
    def test_immunity_puts_the_question_off_and_the_first_offset_still_decides(self):  # type: ignore[no-untyped-def]
        half = yield self.send_half(properties=PREPARED + "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01100")
        self.round()
        parked = self.records(HALF_TOPIC)[1]
        self.assertEqual(parked.properties["TRAN_PREPARED_QUEUE_OFFSET"], "0")
        self.assertNotIn("TRANSACTION_CHECK_TIMES", parked.properties)
        yield self.end(half)
        self.rig.turn()
        self.round()
        self.assertEqual((self.progress(), len(self.records(HALF_TOPIC))), ((2, 1), 2))

    @inlineCallbacks
    def test_B97a_a_restart_asks_about_the_undecided_alone(self):  # type: ignore[no-untyped-def]
        half = yield self.send_half()
        yield self.send_half(b"second")
        yield self.end(half)
        self.rig.turn()
        yield self.restart()
        client = yield self.producer()
        self.round()
        yield client.asked()
        self.assertEqual([decode_record(asked.body).body for asked in client.requests], [b"second"])
        self.assertEqual(self.progress(), (2, 1))

    @inlineCallbacks
    def test_B97a_a_crash_between_copy_and_op_repeats_the_message(self):  # type: ignore[no-untyped-def]
        half = yield self.send_half()
        self.puts.put(committed(self.store.record_at(half[1])))
        self.rig.turn()
        yield self.restart()
        client = yield self.producer()
        self.round()
        (asked,) = yield client.asked()
        yield self.end((1, int(asked.ext["commitLogOffset"])))
        self.assertEqual([record.body for record in self.records("T")], [b"half", b"half"])

    @inlineCallbacks
    def restart(self):  # type: ignore[no-untyped-def]
        yield self.check.stop()
        rig, root = self.rig, self.rig.root
        stopping = rig.stop()
        rig.turn()
        yield stopping
        self._cleanups = [
            (do, *rest) for do, *rest in self._cleanups if getattr(do, "__self__", None) is not rig
        ]
        self.begin(root)
