"""The checker by itself: what each promise asks for, and that breaking it is reported."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.sim.history import Place, Seen, Sent
from hatwisted.sim.promises import Promises, Terms

KEYS = (("T", 0),)


class Store:
    """A store in words: a log of messages, and what its queue names."""

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.log: dict[int, Seen] = {}
        self.entries: list[Seen | None] = []
        self.bytes = b""

    def put(self, sent: Sent) -> None:
        assert sent.place is not None
        seen = Seen(sent.place, sent.body)
        self.log[sent.place.log_offset] = seen
        self.entries.append(seen)

    def log_range(self) -> tuple[int, int]:
        return 0, max(len(self.bytes), max(self.log, default=-1) + 1)

    def record_at(self, log_offset: int) -> Seen | None:
        return self.log.get(log_offset)

    def queue(self, topic: str, queue_id: int) -> tuple[int, list[Seen | None]]:
        return 0, self.entries

    def log_bytes(self, start: int, end: int) -> bytes:
        return self.bytes[start:end]


class PromisesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.promises = Promises()
        self.a, self.b = Store("a"), Store("b")

    def send(
        self,
        code: int | None = 0,
        terms: tuple[bool, bool, bool] = (True, False, False),
        lost: tuple[str, ...] = (),
    ) -> Sent:
        """A message, sent to a and answered so; both stores hold it."""
        number = len(self.promises.sent)
        sent = Sent(number=number, topic="T", queue_id=0, body=b"%d" % number, sent_at=0.0)
        self.promises.send(sent)
        sent.code = code
        sent.place = Place("T", 0, number, number * 100)
        self.promises.answered(sent, "a", "b", Terms(*terms), lost)
        if code in (0, 10, 11, 12):
            self.a.put(sent)
            self.b.put(sent)
        return sent

    def broken(self, store: Store) -> list[str]:
        violations = [*self.promises.check_all_stored(store), *self.promises.check_readable(store, KEYS)]
        return [violation.promise for violation in violations]

    def test_kept_promises_break_nothing(self) -> None:
        for code in (0, 10, 11, 12, 14, None):
            self.send(code)
        for sent in list(self.promises.sent.values())[4:]:
            sent.place = None
        self.assertEqual(self.broken(self.a), [])
        self.assertEqual(self.broken(self.b), [])

    def test_a_message_that_is_gone(self) -> None:
        self.send()
        self.a.log.clear()
        self.assertEqual(self.broken(self.a), ["stored"])
        self.assertEqual(self.broken(self.b), [])

    def test_another_message_in_its_place(self) -> None:
        sent = self.send()
        self.a.log[0] = Seen(Place("T", 0, 0, 0), b"other")
        self.assertEqual(self.broken(self.a), ["stored"])
        self.a.log[0] = Seen(Place("T", 1, 0, 0), sent.body)
        self.assertEqual(self.broken(self.a), ["stored"])

    def test_a_message_without_queue_entry(self) -> None:
        self.send()
        self.a.entries.clear()
        self.assertEqual(self.broken(self.a), ["readable"])

    def test_an_entry_that_names_something_else(self) -> None:
        self.send()
        self.a.entries.append(None)
        self.a.entries.append(Seen(Place("T", 0, 2, 200), b"nobody's"))
        self.a.entries.append(Seen(Place("U", 0, 3, 300), b"nor this"))
        self.assertEqual(self.broken(self.a), ["entries"] * 4)

    def test_a_message_twice(self) -> None:
        sent = self.send()
        self.a.entries.append(Seen(Place("T", 0, 1, 100), sent.body))
        self.assertEqual(self.broken(self.a), ["once"])

    def test_a_refused_message_that_is_there(self) -> None:
        sent = self.send(14)
        self.a.put(sent)
        self.assertEqual(self.broken(self.a), ["refused"])

    def test_what_a_failure_of_power_may_take(self) -> None:
        for terms, kept_on_a, kept_on_b in (
            ((True, False, False), False, False),
            ((True, True, False), True, False),
            ((True, False, True), False, True),
            ((False, True, True), True, False),
        ):
            self.setUp()
            self.send(terms=terms)
            for store in (self.a, self.b):
                self.promises.power_lost(store.name)
                store.log.clear()
                store.entries.clear()
            self.assertEqual(bool(self.broken(self.a)), kept_on_a, terms)
            self.assertEqual(bool(self.broken(self.b)), kept_on_b, terms)

    def test_a_machine_that_lost_its_power_before_the_answer_came(self) -> None:
        for terms, owing in (
            ((True, False, False), set()),
            ((True, True, False), {"a"}),
            ((True, True, True), {"a", "b"}),
        ):
            self.assertEqual(self.send(terms=terms, lost=("a", "b")).on, owing)
        self.assertEqual(self.send(11, (True, True, True), lost=("a",)).on, set())

    def test_only_the_master_has_what_was_told_without_a_slave(self) -> None:
        for code in (10, 11, 12):
            self.send(code, (True, True, True))
        self.b.log.clear()
        self.b.entries.clear()
        self.assertEqual(self.broken(self.b), [])
        self.promises.power_lost("a")
        self.a.log.clear()
        self.a.entries.clear()
        self.assertEqual(self.broken(self.a), [])

    def test_an_emptied_store_owes_nothing(self) -> None:
        self.send()
        self.promises.emptied("b")
        self.b.log.clear()
        self.b.entries.clear()
        self.assertEqual(self.broken(self.b), [])

    def test_who_is_numbered_anew_by_a_slave_in_its_place_has_the_record_but_not_its_place(self) -> None:
        self.send()
        second = self.send()
        self.promises.renumbered("a", 100)
        self.a.entries = [None, self.a.entries[1]]
        self.assertEqual(self.broken(self.a), ["entries"])
        self.a.log.pop(0)
        self.assertEqual(self.broken(self.a), ["stored", "entries"])
        self.promises.emptied("a")
        self.promises.answered(second, "a", "b", Terms(True, False, False))
        self.a.entries = []
        self.assertEqual(self.broken(self.a), ["readable"])

    def test_what_was_deleted_is_out_of_its_queue_and_stays_in_the_log(self) -> None:
        self.send()
        self.promises.deleting("T")
        self.a.entries, self.b.entries = [], []
        self.promises.deleted("T", "a", [1])
        self.assertEqual(self.broken(self.a) + self.broken(self.b), [])
        self.a.log.clear()
        self.assertEqual(self.broken(self.a), ["stored"])

    def test_what_was_deleted_is_back_on_who_deleted_it(self) -> None:
        self.send()
        self.promises.deleting("T")
        self.promises.deleted("T", "a", [1])
        self.assertEqual(self.broken(self.b), [], "it may not have heard of it")
        self.assertEqual(self.broken(self.a), ["deleted"])
        self.promises.promoted()
        self.assertEqual(self.broken(self.a), [], "its master may not have")

    def test_what_was_in_no_queue_yet_isnt_deleted(self) -> None:
        self.send()
        self.promises.deleting("T")
        self.promises.deleted("T", "a", [0])
        self.assertEqual(self.broken(self.a), [])

    def test_linked_logs_are_equal_as_far_as_both_go(self) -> None:
        self.a.bytes, self.b.bytes = b"abcdef", b"abc"
        self.assertIsNone(self.promises.check_equal(self.a, self.b))
        self.b.bytes = b"abX"
        violation = self.promises.check_equal(self.a, self.b)
        self.assertIn("differ from 2 on", str(violation))
