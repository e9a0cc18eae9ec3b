"""Topics of a cluster landed by this process: every message once, whatever brokers, topics and landings do
meanwhile. Brokers that answer as told; no JVM."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("deltalake", reason='deltalake isn\'t installed: pip install "hatwisted[lake]"')

from deltalake import DeltaTable

from hatwisted.clientcore.errors import BrokerGone, OffsetsGone
from hatwisted.pipeline.delta import landedfiles
from hatwisted.pipeline.delta.commits import claim
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.delta.notes import NOTE, Notes
from hatwisted.pipeline.delta.queuetails import noted_queues
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, engine_for
from tests.support import landingcase
from tests.support.landingcase import OTHER, LandingCase, created_again, more, of
from tests.support.scriptedgroup import BROKER, record


class AnyTests(landingcase.QueueLandingCase):
    def around_commits(self, do: Callable[[Callable[[], Any]], Any]) -> AbstractContextManager[Any]:
        commit = landedfiles.commit_files
        return patch.object(
            landedfiles, "commit_files", lambda *given, **named: do(partial(commit, *given, **named))
        )

    def rival(self) -> None:
        claim(self.table, Writer.of([BROKER]))

    def unmentioned(self) -> set[str]:
        mentioned = {Path(path).name for path in DeltaTable(self.table).file_uris()}
        return {path.name for path in Path(self.table).glob("topic=*/*/*")} - mentioned

    def forget(self) -> None:
        shutil.rmtree(Path(self.table, "_landing"))


class OnceTests(LandingCase):
    def test_what_is_new_lands_and_auto_needs_no_spark_for_it(self) -> None:
        master = self.group(100)
        self.assertEqual(engine_for(self.source(), self.table, LandOptions()), "local")
        for count in (0, 50, 0, 7):
            more(master, count)
            self.land()
            self.assertEqual(self.rows(), of(BROKER, master.high))
            _, unknown = noted_queues(Notes(self.table), [BROKER])
            self.assertEqual(unknown, frozenset())

    def test_a_table_whose_commits_say_nothing_of_queues_is_asked_itself(self) -> None:
        """One that was landed by an earlier version: its rows say where to go on."""
        master = self.group(40)
        with patch("hatwisted.pipeline.delta.commits.queue_note", lambda before, moved: {}):
            self.land()
        self.assertEqual(noted_queues(Notes(self.table), [BROKER])[1], {BROKER})
        more(master, 2)
        self.land()
        self.assertEqual(self.rows(), of(BROKER, 42))
        self.assertEqual(noted_queues(Notes(self.table), [BROKER])[1], frozenset())

    def test_after_an_earlier_version_was_restored_what_it_lacks_lands_again(self) -> None:
        master = self.group(40)
        self.land()
        restored = DeltaTable(self.table).version()
        for count in (30, 5):
            more(master, count)
            self.land()
        DeltaTable(self.table).restore(restored)
        self.assertEqual(self.rows(), of(BROKER, 40))
        more(master, 1)
        self.assertEqual(self.land().rows, 36)
        self.assertEqual(self.land().rows, 0)
        for _ in range(2):  # what was restored may be taken back, too
            DeltaTable(self.table).restore(DeltaTable(self.table).version() - 1)
            DeltaTable(self.table).restore(restored)
        self.assertEqual(self.land().rows, 36)
        self.assertEqual(self.rows(), of(BROKER, 76))

    def test_likewise_of_one_by_its_time(self) -> None:
        master = self.group(40)
        self.land()
        for count in (30, 5):
            more(master, count)
            self.land()
        history = DeltaTable(self.table).history()
        batches = [entry["timestamp"] for entry in history if "application" in entry.get(NOTE, {})]
        DeltaTable(self.table).restore(datetime.fromtimestamp(batches[1] / 1000, UTC))
        lacking = master.high - len(self.rows())
        self.assertEqual(self.land().rows, lacking)
        self.assertEqual(self.rows(), of(BROKER, 75))


class OtherQueueTests(LandingCase):
    def test_a_topic_that_was_created_again_is_told_and_then_lands_once_more(self) -> None:
        for before, after in ((100, 150), (100, 100), (100, 30)):
            with self.subTest(after=after):
                shutil.rmtree(self.table, ignore_errors=True)
                master = self.group(before)
                self.land()
                created_again(master, after)
                with self.assertRaisesRegex(OffsetsGone, "another message at 99|ends at 30, before 100"):
                    self.land()
                lossy = self.source(failOnDataLoss="false")
                with self.assertLogs("hatwisted.pipeline.jobs.land", "WARNING"):
                    self.assertEqual(self.land(lossy).rows, after)
                # The higher offsets of before don't count any more.
                self.assertEqual(self.land().rows, 0)
                self.assertEqual(len(self.rows()), before + after)

    def test_the_same_messages_at_another_broker_of_the_group_are_no_others(self) -> None:
        master = self.group(100)
        self.land()
        master.stop()
        self.group(120)
        self.assertEqual(self.land().rows, 20)
        self.assertEqual(self.rows(), of(BROKER, 120))

    def test_what_retention_took_before_it_landed_is_told(self) -> None:
        master = self.group(100)
        self.land()
        more(master, 100)
        master.messages = {offset: record(offset) for offset in range(150, 200)}
        master.low = 150
        with self.assertRaisesRegex(OffsetsGone, "messages 100 to 149 are gone"):
            self.land()
        self.assertEqual(self.land(self.source(failOnDataLoss="false")).rows, 50)
        self.assertEqual(self.land().rows, 0)


class FollowTests(LandingCase):
    def follow(self, *steps: Callable[[], object], **options: str) -> LandResult:
        """One step after each time that something was read, then the end."""
        stop, left = threading.Event(), list(steps)

        def progress(done: int, total: int) -> None:
            left.pop(0)() if left else stop.set()

        source = self.source(**options)
        return self.land(source, mode="continuous", every=0.01, stop=stop, progress=progress)

    def test_brokers_that_come_and_go(self) -> None:
        """One is there after the first round, with rows in the table since long; the other goes, and is back."""
        master, other = self.group(40), self.group(30, name=OTHER)
        self.land()
        del self.names.others[OTHER]
        shutil.rmtree(Path(self.table, "_landing"))
        self.names.others.clear()
        known = {0: other.address}
        more(master, 5)

        def added() -> None:
            self.names.others[OTHER] = known
            more(other, 10)

        with patch("hatwisted.pipeline.spark.queuewatch.QUEUES_KNOWN_FOR", 0.0):
            self.follow(added, lambda: more(master, 1), failOnDataLoss="false")
        self.assertEqual(self.rows(), of(BROKER, 46) + of(OTHER, 40))

    def test_a_group_that_is_away_doesnt_stop_the_others(self) -> None:
        master, other = self.group(40), self.group(30, name=OTHER)

        def hang_up() -> None:
            other.stop()
            more(master, 1)

        with self.assertLogs("hatwisted.pipeline.spark", "WARNING") as told:
            self.follow(lambda: more(master, 1), hang_up, lambda: more(master, 1))
        self.assertIn(f"broker {OTHER} is away", told.output[0])
        self.assertEqual(self.rows(), of(BROKER, 43) + of(OTHER, 30))
        with self.assertRaises(BrokerGone):
            self.land()
