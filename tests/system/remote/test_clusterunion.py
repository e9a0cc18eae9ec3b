"""A landed table and what is only at the brokers of its topics: each message once. No JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason='deltalake isn\'t installed: pip install "hatwisted[lake]"')

from hatwisted.clientcore.errors import OffsetsGone
from hatwisted.pipeline import union_arrow
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.land.landingsources import Cluster, Stores
from tests.support.growing import GrowingStore
from tests.support.landingcase import OTHER, LandingCase, created_again, more, of
from tests.support.scriptedgroup import BROKER, ScriptedBroker, record


class UnionTests(LandingCase):
    def union(self, source: Cluster | str | None = None) -> list[tuple[str, int]]:
        rows = union_arrow(self.table, source or self.source(), ["broker", "queue_offset"]).read_all()
        return sorted((row["broker"], row["queue_offset"]) for row in rows.to_pylist())

    def gone(self, broker: ScriptedBroker, low: int) -> None:
        broker.messages = {offset: record(offset) for offset in range(low, broker.high)}
        broker.low = low

    def test_each_message_once_while_brokers_are_added_and_landings_go_on(self) -> None:
        master = self.group(40)
        self.land()
        other = self.group(30, name=OTHER)
        for count in (7, 0, 5):
            more(master, count)
            self.assertEqual(self.union(), of(BROKER, master.high) + of(OTHER, 30))
            self.assertEqual(self.union(self.names.address), of(BROKER, master.high) + of(OTHER, 30))
            self.land()
            self.assertEqual(self.union(), self.rows())
        more(other, 1)
        self.assertEqual(self.union(), of(BROKER, 52) + of(OTHER, 31))

    def test_what_is_in_neither_is_told(self) -> None:
        master = self.group(40)
        self.land()
        more(master, 40)
        self.gone(master, 60)
        with self.assertRaisesRegex(
            OffsetsGone, "messages 40 to 59 were deleted before they were landed: set"
        ):
            self.union()
        left = self.union(self.source(failOnDataLoss="false"))
        self.assertEqual(left, of(BROKER, 40) + of(BROKER, 60, 80))

    def test_a_topic_that_was_created_again_and_a_broker_that_is_away_are_told(self) -> None:
        master = self.group(40)
        self.group(30, name=OTHER)
        self.land()
        created_again(master, 50)
        with self.assertRaisesRegex(OffsetsGone, "another message at 39 than the table"):
            self.union()
        self.names.others.clear()
        with self.assertRaisesRegex(OffsetsGone, f"queue 0 of {OTHER}: no name server knows it"):
            self.union()

    def test_a_store_cant_say_what_a_table_of_topics_lacks(self) -> None:
        self.group(40)
        self.land()
        folder = self.table + "-store"
        GrowingStore(Path(folder)).append(5)
        with self.assertRaisesRegex(PipelineError, "was landed from a cluster.*give the name servers"):
            union_arrow(self.table, Stores([folder], {"broker": BROKER}))
