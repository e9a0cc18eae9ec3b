"""Landing a topic from brokers that answer as told."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any
from unittest import TestCase

from deltalake import DeltaTable

from hatwisted.pipeline.jobs.land.landing import LandOptions, LandResult, land
from hatwisted.pipeline.jobs.land.landingsources import Cluster
from tests.support.scriptedgroup import BROKER, TOPIC, ScriptedBroker, ScriptedNameServer, record

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


class LandingCase(TestCase):
    """One topic, of one queue at each group."""

    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.names = self.stack.enter_context(ScriptedNameServer({}))
        self.table = str(Path(self.enterContext(tempfile.TemporaryDirectory()), "table"))

    def group(self, *offsets: int, name: str = BROKER) -> ScriptedBroker:
        """A group of one master, which the name server knows."""
        broker = self.stack.enter_context(ScriptedBroker(range(*offsets)))
        if name == BROKER:
            self.names.brokers = {0: broker.address}
        else:
            self.names.others[name] = {0: broker.address}
        return broker

    def source(self, **options: str) -> Cluster:
        return Cluster(self.names.address, [TOPIC], more={"retries": "0", **options})

    def land(self, source: Cluster | None = None, **options: Any) -> LandResult:
        running = {name: options.pop(name) for name in ("stop", "progress") if name in options}
        how = LandOptions(**{"engine": "local", "compact_below": None, **options})
        return land(source or self.source(), self.table, how, **running)

    def rows(self) -> list[tuple[str, int]]:
        found = DeltaTable(self.table).to_pyarrow_table(columns=["broker", "queue_offset"]).to_pylist()
        return sorted((row["broker"], row["queue_offset"]) for row in found)
