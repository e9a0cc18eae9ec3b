"""Where brokers' rows end, as landings' commits say it, whatever others commit in between and did before."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deltalake import DeltaTable

from hatwisted.pipeline.delta import commits
from hatwisted.pipeline.delta.commits import LONGEST_PAUSE, TRIES, claim, note_queues
from hatwisted.pipeline.delta.errors import LAND_AGAIN, WrongTable
from hatwisted.pipeline.delta.tails import landed_tails
from tests.tables.delta.tables import RaceCase, Run, commit_as_before, offsets, rows, upto, write_commit


class TailsCase(RaceCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def end(self, broker: str) -> int | None:
        tail = landed_tails(self.path, [broker]).get(broker)
        return None if tail is None else tail.physical_offset

    def delete_from(self, broker: str, offset: int) -> None:
        DeltaTable(self.path).delete(f"broker = '{broker}' AND physical_offset >= {offset}")

    def land_as_before(self, run: Run, number: int, first: int, count: int) -> None:
        (broker,) = run.claim.writer.brokers
        note = {"application": run.application, "batch": number, "rows": count, "brokers": [broker]}
        commit_as_before(self.path, note, run.files(rows(first, count, broker=broker)))


class TestOthers(TailsCase):
    """Brokers that are landed into the same table meanwhile."""

    def test_a_place_stays_where_its_own_landing_has_put_it(self) -> None:
        run, other = Run(self.path), Run(self.path, "other", ("b",))
        run.land(0, rows(0, 5))
        other.land(0, rows(0, 5, broker="b"))
        self.race(lambda: other.land(1, rows(5, 5, broker="b")))
        self.assertTrue(run.land(1, rows(5, 5)))
        self.delete_from("b", 700)
        self.assertEqual((self.end("a"), self.end("b")), (900, 900))

    def test_a_claim_leaves_it_there_too(self) -> None:
        other = Run(self.path, "other", ("b",))
        other.land(0, rows(0, 5, broker="b"))
        self.race(lambda: other.land(1, rows(5, 5, broker="b")))
        Run(self.path)
        self.delete_from("b", 700)
        self.assertEqual(self.end("b"), 900)

    def test_and_so_does_a_note_of_queues(self) -> None:
        run, other = Run(self.path), Run(self.path, "other", ("b",))
        run.land(0, rows(0, 5))
        held = claim(self.path, run.claim.writer, by_queue=True)
        self.race(lambda: other.land(0, rows(0, 10, broker="b")))
        note_queues(self.path, held)
        self.delete_from("b", 700)
        self.assertEqual(self.end("b"), 900)

    def test_queues_that_were_only_looked_at_leave_a_log_s_end_known(self) -> None:
        run = Run(self.path)
        run.land(0, rows(0, 10))
        note_queues(self.path, claim(self.path, run.claim.writer, by_queue=True))
        self.delete_from("a", 700)
        claim(self.path, run.claim.writer)
        self.assertEqual(self.end("a"), 900)

    def test_whoever_is_always_too_late_waits_in_between_and_says_so_in_the_end(self) -> None:
        run, pauses = Run(self.path), []
        files, leap = run.files(rows(0, 10)), commits._commit

        def leap_late(*given: Any) -> None:
            write_commit(self.path, "WRITE")
            leap(*given)

        self.patch(commits, "_commit", leap_late)
        self.patch(commits, "sleep", pauses.append)
        error = self.assertRaises(WrongTable, run.commit, 0, files)
        self.assertIn(f"wasn't committed in {TRIES} attempts", str(error))
        self.assertEqual((len(pauses), offsets(self.path)), (TRIES, []))
        self.assertGreater(sum(pauses), 1)
        self.assertLessEqual(max(pauses), LONGEST_PAUSE)

    def test_many_at_once_lose_neither_rows_nor_places(self) -> None:
        brokers, batches = "abcdefgh", 6
        runs = [Run(self.path, f"app-{name}", (name,)) for name in brokers]

        def land(run: Run) -> None:
            (broker,) = run.claim.writer.brokers
            for number in range(batches):
                run.land(number, rows(10 * number, 10, broker=broker))

        with ThreadPoolExecutor(len(runs)) as pool:
            list(pool.map(land, runs))
        self.assertEqual(Counter(offsets(self.path)), dict.fromkeys(upto(10 * batches), len(brokers)))
        DeltaTable(self.path).delete()
        tails = landed_tails(self.path, brokers)
        self.assertEqual(
            {name: tail.physical_offset for name, tail in tails.items()}, dict.fromkeys(brokers, 5900)
        )


class TestBefore(TailsCase):
    """Landings of versions that said nothing of ends."""

    def test_the_first_claim_says_where_the_rows_end(self) -> None:
        run = Run(self.path)
        self.land_as_before(run, 0, 0, 10)
        Run(self.path)
        self.delete_from("a", 700)
        self.assertEqual(self.end("a"), 900)

    def test_they_hide_nothing_of_other_brokers(self) -> None:
        run, other = Run(self.path), Run(self.path, "other", ("b",))
        run.land(0, rows(0, 10))
        other.land(0, rows(0, 10, broker="b"))
        commit_as_before(self.path, {"claim": 7, "brokers": ["b"], "by_queue": False})
        self.land_as_before(other, 1, 10, 10)
        self.delete_from("a", 700)
        self.assertEqual((self.end("a"), self.end("b")), (900, 1900))
        self.delete_from("b", 1500)
        self.assertEqual(self.end("b"), 1400)  # nobody has said more
        Run(self.path, "third", ("c",))
        self.assertEqual((self.end("a"), self.end("b")), (900, 1400))

    def test_a_claim_of_theirs_moves_no_end(self) -> None:
        run = Run(self.path)
        run.land(0, rows(0, 10))
        commit_as_before(self.path, {"claim": 7, "brokers": ["a"], "by_queue": False})
        self.delete_from("a", 700)
        self.assertEqual(self.end("a"), 900)


class TestRestored(TailsCase):
    def test_a_version_between_look_and_leap_is_told_and_made_up_for(self) -> None:
        """One of the same files and metadata: delta-rs sees no conflict with files to add."""
        run = Run(self.path)
        run.land(0, rows(0, 10))
        version = DeltaTable(self.path).version()
        run.land(1, rows(10, 10))
        self.delete_from("a", 1000)
        to = {"version": str(version)}
        self.race_at_the_end(lambda: write_commit(self.path, "RESTORE", operationParameters=to))
        error = self.assertRaises(WrongTable, run.land, 2, rows(20, 10))
        told = "was restored to an earlier version while rows were written (its version 5 did that): "
        self.assertEqual(str(error), f"{self.path}: {told}{LAND_AGAIN}")
        self.assertEqual(offsets(self.path), upto(10))
        Run(self.path)
        self.assertEqual(self.end("a"), 900)
