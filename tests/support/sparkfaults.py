"""Faults that a landing by Spark could have, as landingfaults.py has them of the engine `local`: each takes away
one precaution, or does by halves what has to be done at once. Here they are undone again, since a session is
shared.

What happens in Spark's own processes is changed by what they are sent, in which this module travels by value.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark import cloudpickle

from hatwisted.pipeline.decode.storefolder import Split
from hatwisted.pipeline.delta.commits import Claim
from hatwisted.pipeline.delta.errors import Fenced
from hatwisted.pipeline.iceberg import fileids, numberedbatches
from hatwisted.pipeline.iceberg.snapshots import IcebergClaim, append_once, tails_noted
from hatwisted.pipeline.jobs.land import icebergquery, splitrows, taskedlanding
from hatwisted.pipeline.jobs.land.deltalanding import DeltaLanding
from hatwisted.pipeline.jobs.land.deltaquery import DeltaQuery
from hatwisted.pipeline.jobs.land.icebergbatches import IcebergLanding
from hatwisted.pipeline.jobs.land.landingsources import Stores
from hatwisted.pipeline.jobs.land.sparkrun import SparkRun
from hatwisted.pipeline.spark import deltasink
from tests.support.landedtables import DELTA, ICEBERG

TASKS, STREAM = "tasks", "stream"
Fault = Callable[[], Any]
"""Makes a context, in which it's planted."""
FAULTS: dict[tuple[str, str, str], Fault] = {}
"""By kind of table, way of landing, and name."""
LANDINGS: dict[str, Any] = {DELTA: DeltaLanding, ICEBERG: IcebergLanding}


@contextmanager
def planted(*which: str) -> Iterator[None]:
    """In this process and in what is sent from it."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        with FAULTS[which]():  # type: ignore[index]
            yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def of(form: str, way: str) -> Callable[[Fault], Fault]:
    """A fault called like its function."""

    def add(fault: Fault) -> Fault:
        FAULTS[form, way, fault.__name__.rstrip("_").replace("_", "-")] = fault
        return fault

    return add


def _all(*contexts: Any) -> ExitStack:
    stack = ExitStack()
    for context in contexts:
        stack.enter_context(context)
    return stack


# ---- tasks, into tables of both kinds


def _adding(form: str, change: Callable[[list[Any]], list[Any]]) -> Any:
    """What tasks hand over is changed before the commit."""
    kind = LANDINGS[form]
    add = kind.add
    return patch.object(kind, "add", lambda self, parts: add(self, change(list(parts))))


class _Exchanging:
    """A task whose rows have each other's bodies."""

    def __init__(self, task: Callable[[Split], Any]) -> None:
        self._task = task

    def __call__(self, split: Split) -> Any:
        dated = splitrows.with_store_date

        def exchanged(rows: pa.RecordBatch) -> pa.RecordBatch:
            rows = dated(rows)
            bodies = rows["body"].take(pa.array(range(rows.num_rows))[::-1])
            return rows.set_column(rows.schema.names.index("body"), "body", bodies)

        with patch.object(splitrows, "with_store_date", exchanged):
            return self._task(split)


def _tasks_by(form: str, change: Callable[[Any], Any]) -> Any:
    kind = LANDINGS[form]
    task = kind.task
    return patch.object(kind, "task", lambda self: change(task(self)))


def _planned_from_the_begin() -> Any:
    log_splits = taskedlanding.log_splits
    return patch.object(
        taskedlanding,
        "log_splits",
        lambda source, brokers, begins, size: log_splits(source, brokers, {}, size),
    )


for each in (DELTA, ICEBERG):
    FAULTS |= {
        (each, TASKS, "task-left-out"): lambda form=each: _adding(form, lambda parts: parts[:-1]),  # type: ignore[misc]
        (each, TASKS, "bodies-exchanged"): lambda form=each: _tasks_by(form, _Exchanging),  # type: ignore[misc]
        (each, TASKS, "planned-from-the-begin"): _planned_from_the_begin,
    }


@of(ICEBERG, TASKS)
def task_twice() -> Any:
    """A batch has a task's files twice."""
    return _adding(ICEBERG, lambda parts: [*parts, parts[-1]])


@of(DELTA, TASKS)
def claim_unchecked() -> Any:
    """An earlier run's commits are taken."""
    return patch.object(Claim, "check")


@of(ICEBERG, TASKS)
@of(ICEBERG, STREAM)
def claim_unchecked_() -> Any:
    """An earlier run's commits are taken, if they fit."""
    return patch.object(IcebergClaim, "check")


class _OneName:
    """A task whose files are called as those of the other tasks."""

    def __init__(self, task: Callable[[Split], Any]) -> None:
        self._task = task

    def __call__(self, split: Split) -> Any:
        with patch.object(fileids, "ATTEMPT_BITS", 0):
            return self._task(split)


@of(ICEBERG, TASKS)
def attempts_of_one_name() -> Any:
    """Tasks write over each other's files."""
    return _tasks_by(ICEBERG, _OneName)


# ---- a stream, into tables of both kinds


def _checkpoint_followed() -> Any:
    return patch.object(SparkRun, "_unfit", lambda self, state: None)


def _tails_not_resumed() -> Any:
    return patch.object(Stores, "resume", lambda self, tails, queues: {})


for each in (DELTA, ICEBERG):
    FAULTS |= {
        (each, STREAM, "checkpoint-followed"): _checkpoint_followed,
        (each, STREAM, "tails-not-resumed"): _tails_not_resumed,
    }


# ---- a stream, into Delta tables: Spark has a process for its sink's commits


def _sink(writer: type[deltasink.DeltaStreamWriter]) -> Any:
    class Sink(deltasink.DeltaSink):
        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return writer(deltasink.SinkOptions.parse(self.options), schema)

    return patch.object(deltasink, "DeltaSink", Sink)


@of(DELTA, STREAM)
def number_ignored() -> Any:
    """A batch that Spark repeats is taken for a new one."""

    class Writer(deltasink.DeltaStreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            self._commit(messages, uuid.uuid4().hex, batchId)

    return _sink(Writer)


@of(DELTA, STREAM)
def claim_unchecked__() -> Any:
    """An earlier run's commits are taken."""

    class Writer(deltasink.DeltaStreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            with patch.object(Claim, "check"):
                super().commit(messages, batchId)

    return _sink(Writer)


@of(DELTA, STREAM)
def state_without_data() -> Any:
    """Spark hears that a batch is done which the table doesn't take."""

    class Writer(deltasink.DeltaStreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            with suppress(Fenced):
                super().commit(messages, batchId)

    return _sink(Writer)


@of(DELTA, STREAM)
def task_left_out() -> Any:
    """A batch lacks a task's files."""

    class Writer(deltasink.DeltaStreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            super().commit([*messages][:-1], batchId)

    return _sink(Writer)


@of(DELTA, STREAM)
def restored_unseen() -> Any:
    """A checkpoint is followed whose batches a restored version lacks."""
    return patch.object(DeltaQuery, "was_taken_back", lambda *_: False)


# ---- a stream, into Iceberg tables


@of(ICEBERG, STREAM)
def number_ignored_() -> Any:
    """A batch that Spark repeats is taken for a new one."""
    return patch.object(numberedbatches, "last_batch", lambda *_: None)


@of(ICEBERG, STREAM)
def number_and_tails_ignored() -> Any:
    """Batches are added, whatever there is."""

    def append(table: Any, name: str, written: Any, *, held: Any, batch: Any, note: Any) -> bool:
        def checked() -> dict[str, str]:
            return tails_noted(table, written.reach.tails) | batch.note

        return append_once(table, name, written.files, held=held, checked=checked, note=note)

    return patch.object(icebergquery, "append_numbered", append)


def _committing(change: Callable[[Callable[..., None], Any, Any, int], None]) -> Any:
    commit = icebergquery._Commits.commit

    def changed(self: Any, batch: Any, number: int) -> None:
        change(commit, self, batch, number)

    return patch.object(icebergquery._Commits, "commit", changed)


@of(ICEBERG, STREAM)
def state_without_data_() -> Any:
    """Spark hears that a batch is done which the table doesn't take."""

    def change(commit: Callable[..., None], run: Any, batch: Any, number: int) -> None:
        with suppress(Fenced):
            commit(run, batch, number)

    return _committing(change)


@of(ICEBERG, STREAM)
def task_left_out_() -> Any:
    """A batch lacks a file."""

    def change(commit: Callable[..., None], run: Any, batch: Any, number: int) -> None:
        del batch.whole.files[-1:]
        commit(run, batch, number)

    return _committing(change)


@of(ICEBERG, STREAM)
def task_twice_() -> Any:
    """A batch has a file twice. (A Delta table has each path once, whatever a commit says.)"""

    def change(commit: Callable[..., None], run: Any, batch: Any, number: int) -> None:
        batch.whole.files.append(batch.whole.files[-1])
        commit(run, batch, number)

    return _committing(change)


@of(ICEBERG, STREAM)
def restored_unseen_() -> Any:
    """A checkpoint is followed whose batches a rolled back table lacks."""
    return _all(
        patch.object(icebergquery, "was_taken_back", lambda *_: False),
        patch.object(numberedbatches, "was_taken_back", lambda *_: False),
    )
