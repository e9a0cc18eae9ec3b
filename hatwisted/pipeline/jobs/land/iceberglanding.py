"""Landing into an Iceberg table, by the engine `local`; the table as that one sees it is in icebergbatches.py."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.iceberg.catalogs import IcebergName
from hatwisted.pipeline.jobs.land.clusterlanding import ClusterLanding
from hatwisted.pipeline.jobs.land.icebergbatches import IcebergLanding, IcebergQueues, settle_ended
from hatwisted.pipeline.jobs.land.landingsources import Cluster, LandingSource, Stores
from hatwisted.pipeline.jobs.land.landoptions import (
    CLAIMING,
    LOOKING,
    READING,
    LandOptions,
    LandResult,
    Progress,
    tell,
)
from hatwisted.pipeline.jobs.land.locallanding import LocalLanding, unsupported
from hatwisted.pipeline.schemas.topicschemas import check_schemas


def check_iceberg(source: LandingSource, table: str, how: LandOptions) -> None:
    """Raises PipelineError if this can't be landed there.

    - source: what is landed
    - table: its name
    - how: options
    """
    reason = unsupported(source, how)
    if how.engine == "spark":
        reason = "Spark's part is Delta"
    elif reason is None and how.checkpoint is not None:
        reason = "it keeps no checkpoint, as the table says how far it is"
    if reason is not None:
        raise PipelineError(f"{table}: Iceberg tables are landed by the engine local: {reason}")


def land_iceberg(
    source: LandingSource,
    table: str,
    how: LandOptions,
    *,
    progress: Progress,
    stop: threading.Event,
    seconds: Callable[[], float],
) -> LandResult:
    """As `land`.

    - source: what is landed
    - table: its name
    - how: options
    - progress: called with (bytes done, bytes in all)
    - stop: ends it
    - seconds: the clock
    """
    name = IcebergName.parse(table)
    check_iceberg(source, table, how)
    begun, by_queue = seconds(), isinstance(source, Cluster)
    brokers = source.writer().brokers
    check_schemas(how.schemas)
    name.open_catalog()  # or what is said about that
    from hatwisted.pipeline.iceberg.deadletters import settle
    from hatwisted.pipeline.iceberg.icebergfiles import FileIds
    from hatwisted.pipeline.iceberg.landedfiles import LandedTables
    from hatwisted.pipeline.iceberg.snapshots import check_whole, claim, landed_tails

    tell(progress, READING)
    tables = LandedTables.prepare(name, how.columns, how.schemas)
    opened = tables.table
    if not by_queue:
        check_whole(opened, table, brokers)
        source.check(landed_tails(opened, table, brokers))
    tell(progress, CLAIMING)
    held = claim(opened, table, brokers, by_queue=by_queue, settled=settle(opened, name))
    removed = settle_ended(opened, name, held.ended)  # what they committed before the claim took effect, too
    tell(progress, LOOKING)
    common: Any = {"into": tables, "held": held, "how": how, "ids": FileIds(held.run)}
    into: IcebergQueues | IcebergLanding
    if isinstance(source, Cluster):
        into = IcebergQueues(source=source, **common)
        compaction, stopped = ClusterLanding(into, source, how, progress, seconds).run(stop)
    else:
        stores = cast(Stores, source)
        into = IcebergLanding(source=stores, **common)
        compaction, stopped = LocalLanding(into, stores, how, progress, seconds).run(stop)
    done = into.done
    return LandResult(
        table=table,
        engine="local",
        rows=done.rows,
        bytes=done.bytes,
        log_bytes=done.log_bytes,
        files=done.files,
        versions=tuple(done.snapshots),
        seconds=seconds() - begun,
        removed=len(removed),
        compacted=compaction.removed,
        put_off=compaction.put_off,
        dead_letters=dict(sorted(done.dead_letters.items())),
        damages=0,
        stopped=stopped,
    )
