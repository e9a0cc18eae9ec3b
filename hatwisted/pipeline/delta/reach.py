"""Where rows that are being landed lie in their brokers' logs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hatwisted.pipeline.delta.tails import COLUMNS, Tail, further, plain_rows


@dataclass
class Reach:
    """Where some rows lie in the logs. first: the least offset of each broker; tails: the record with its highest
    one."""

    first: dict[str, int] = field(default_factory=dict)
    tails: dict[str, Tail] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows of any brokers."""
        places = rows.select(COLUMNS)
        brokers = pc.unique(rows["broker"]).to_pylist()
        for broker in brokers:
            if broker is None:
                continue
            mine = places if len(brokers) == 1 else places.filter(pc.equal(places["broker"], broker))
            bounds = pc.min_max(mine["physical_offset"]).as_py()
            last = mine.slice(pc.index(mine["physical_offset"], bounds["max"]).as_py(), 1)
            tail = Tail(**plain_rows(pa.Table.from_batches([last])).to_pylist()[0])
            self += Reach({broker: bounds["min"]}, {broker: tail})

    def __iadd__(self, other: Reach) -> Reach:
        for broker, first in other.first.items():
            self.first[broker] = min(first, self.first.get(broker, first))
        further(self.tails, other.tails, "physical_offset")
        return self
