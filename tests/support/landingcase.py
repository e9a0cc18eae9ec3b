"""Landing a topic from brokers that answer as told."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable

from hatwisted.clientcore.errors import OffsetsGone
from hatwisted.pipeline.delta.deadletters import dead_letter_table
from hatwisted.pipeline.delta.errors import Fenced, WrongTable
from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster
from hatwisted.pipeline.schemas.topicschemas import parse_schemas
from tests.support.scriptedgroup import BROKER, TOPIC, GroupsCase, ScriptedBroker, record

OTHER = "broker-b"


def of(broker: str, *offsets: int) -> list[tuple[str, int]]:
    return [(broker, offset) for offset in range(*offsets)]


def more(broker: ScriptedBroker, count: int) -> None:
    """So many messages are sent."""
    broker.messages |= {offset: record(offset) for offset in range(broker.high, broker.high + count)}
    broker.high += count


def created_again(broker: ScriptedBroker, count: int) -> None:
    """The topic was deleted, and has other messages now."""
    broker.messages = {each: record(each, b"anew", stored=1_700_000_900_000 + each) for each in range(count)}
    broker.low, broker.high = 0, count


class LandingCase(GroupsCase):
    """Their topic, landed: into a Delta table, if a test doesn't say otherwise."""

    def setUp(self) -> None:
        super().setUp()
        self.table = str(Path(self.enterContext(tempfile.TemporaryDirectory()), "table"))

    def source(self, **options: str) -> Cluster:
        return Cluster(self.names.address, [TOPIC], more={"retries": "0", **options})

    def land(self, source: Cluster | None = None, **options: Any) -> LandResult:
        running = {name: options.pop(name) for name in ("stop", "progress") if name in options}
        how = LandOptions(**{"engine": "local", "compact_below": None, **options})
        return land(source or self.source(), self.table, how, **running)

    def read(self, beside: bool = False) -> pa.Table:
        """The table, or that of dead letters."""
        return DeltaTable(dead_letter_table(self.table) if beside else self.table).to_pyarrow_table()

    def rows(self) -> list[tuple[str, int]]:
        found = self.read().select(["broker", "queue_offset"]).to_pylist()
        return sorted((row["broker"], row["queue_offset"]) for row in found)


class QueueLandingCase(LandingCase):
    """What holds of every kind of table. Test modules don't import it by its own name: it would run there."""

    def around_commits(self, do: Callable[[Callable[[], Any]], Any]) -> AbstractContextManager[Any]:
        """Each commit of a batch is left to `do`, which gets it as a call."""
        raise NotImplementedError

    def rival(self) -> None:
        """Another run claims BROKER."""
        raise NotImplementedError

    def unmentioned(self) -> set[str]:
        """Names of files that belong to no version of the table."""
        raise NotImplementedError

    def forget(self) -> None:
        """What is kept beside the table is lost, if anything is."""

    def test_of_any_choice_of_brokers(self) -> None:
        """Brokers come and go between runs; the table remembers where each one's queue ended."""
        master, other = self.group(40), self.group(30, name=OTHER)
        address = {0: other.address}
        for there in (False, True, False, True, True):
            more(master, 5)
            more(other, 3)
            if there:
                self.names.others[OTHER] = address
                self.land()
            else:
                self.names.others.clear()
                self.land(self.source(failOnDataLoss="false"))
            self.forget()
        self.assertEqual(self.rows(), of(BROKER, master.high) + of(OTHER, other.high))

    def test_bodies_become_a_column_and_those_that_don_t_fit_go_beside(self) -> None:
        master = self.group(20)
        master.messages |= {at: record(at, b'{"id": %d}' % at) for at in range(0, 20, 2)}
        schema = Path(self.enterContext(tempfile.TemporaryDirectory()), "schema.json")
        schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
        schemas = parse_schemas([f"{TOPIC}=json:{schema}"])
        self.assertEqual(self.land(schemas=schemas).dead_letters, {"malformed": 10})
        more(master, 5)
        self.assertEqual(self.land(schemas=schemas).dead_letters, {"malformed": 5})
        rows = self.read().to_pylist()
        landed = {row["queue_offset"]: row[TOPIC] and row[TOPIC]["id"] for row in rows}
        self.assertEqual(landed, {at: at if at in range(0, 20, 2) else None for at in range(25)})
        dead = self.read(beside=True)["queue_offset"].to_pylist()
        self.assertEqual(sorted(dead), [at for at in range(25) if landed[at] is None])

    def test_a_broker_of_before_that_is_away_is_missed(self) -> None:
        self.group(40)
        self.group(30, name=OTHER)
        self.land()
        self.names.others.clear()
        with self.assertRaisesRegex(
            OffsetsGone, f"queue 0 of {OTHER}: no name server knows it any more: set fail"
        ):
            self.land()

    def test_a_run_that_ends_anywhere_is_made_up_for(self) -> None:
        self.group(2000)
        self.group(1500, name=OTHER)
        calls = 0

        def broken(commit: Callable[[], Any]) -> Any:
            nonlocal calls
            calls += 1
            if calls % 3 == 2:
                raise OSError("no more")
            result = commit()
            if calls % 3 == 0:
                raise KeyboardInterrupt
            return result

        with (
            self.around_commits(broken),
            patch("hatwisted.pipeline.remote.clusterreader.DECODE_BYTES", 10_000),
        ):
            for _ in range(100):
                try:
                    if not self.land(max_bytes_per_trigger=60_000).rows:
                        break
                except (OSError, WrongTable, KeyboardInterrupt):
                    pass
        self.assertGreater(calls, 9)
        self.assertEqual(self.rows(), of(BROKER, 2000) + of(OTHER, 1500))
        self.assertEqual(self.land().rows, 0)
        self.assertEqual(self.unmentioned(), set())

    def test_a_later_run_fences_it(self) -> None:
        self.group(50)
        rivals = [self.rival]

        def late(commit: Callable[[], Any]) -> Any:
            if rivals:
                rivals.pop()()
            return commit()

        with self.around_commits(late), self.assertRaises(Fenced):
            self.land()
        self.assertEqual(self.rows(), [])
        self.assertEqual(self.unmentioned(), set())
        self.assertEqual(self.land().rows, 50)

    def test_a_promoted_slave_that_lacked_messages_is_told(self) -> None:
        """It has others at the same numbers and the same places of its log; only their store times differ."""
        master = self.group(100)
        self.land()
        for offset in range(95, 120):
            master.messages[offset] = record(offset, stored=1_700_000_900_000)
        master.high = 120
        with self.assertRaisesRegex(OffsetsGone, "another message at 99 than the table"):
            self.land()
