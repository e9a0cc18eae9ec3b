"""Landing a topic from brokers that answer as told."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster
from tests.support.scriptedgroup import TOPIC, GroupsCase, ScriptedBroker, record

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
    """Their topic, landed."""

    def setUp(self) -> None:
        super().setUp()
        self.table = str(Path(self.enterContext(tempfile.TemporaryDirectory()), "table"))

    def source(self, **options: str) -> Cluster:
        return Cluster(self.names.address, [TOPIC], more={"retries": "0", **options})

    def land(self, source: Cluster | None = None, **options: Any) -> LandResult:
        running = {name: options.pop(name) for name in ("stop", "progress") if name in options}
        how = LandOptions(**{"engine": "local", "compact_below": None, **options})
        return land(source or self.source(), self.table, how, **running)

    def rows(self) -> list[tuple[str, int]]:
        found = DeltaTable(self.table).to_pyarrow_table(columns=["broker", "queue_offset"]).to_pylist()
        return sorted((row["broker"], row["queue_offset"]) for row in found)
