"""The report of one or several logs: what was stored when, how big, how late, and how far the slaves have come.

One pass over the log makes a small cube (reportfigures.py), which is cached; its roll-ups are collected
(reportsummary.py), drawn (reportplots.py) and put on one page (reportpage.py). Next to the page are the plots as
SVG and PNG, the detail by minute, topic and queue as CSV, and the same figures as JSON. The page is written
last and under another name first: if it exists, it's complete.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from hatwisted.pipeline.decode.logreader import Mode, read_arrow
from hatwisted.pipeline.decode.storefolder import LogStore
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.messageselection import EVERYTHING, Selection
from hatwisted.pipeline.jobs.ownplace import other_than
from hatwisted.pipeline.jobs.report import reportfigures, reportpage, reportplots
from hatwisted.pipeline.jobs.report.reportfigures import Extent
from hatwisted.pipeline.jobs.report.reportsummary import Summary, as_json, step_for, summarise
from hatwisted.pipeline.jobs.sparkactions import Progress, run_action
from hatwisted.pipeline.spark.damagetable import read_damages
from hatwisted.pipeline.spark.sparksession import spark_session
from hatwisted.wire.storenames import LOG_FOLDER

PAGE: Final = "report.html"
FIGURES: Final = "report.json"
MINUTES: Final = "minutes.csv"
PLOTS: Final = "plots"
DAMAGES: Final = "report-damages"
"""Names in the report's folder."""
OWN: Final = (PAGE, f".{PAGE}", FIGURES, MINUTES, PLOTS, DAMAGES)

CUBE_STEPS: Final = 2000
"""Moments that the cube distinguishes: more than a time axis shows, and few enough that the cube stays small."""


class NothingToReport(PipelineError):
    """The logs hold no message to report on."""


@dataclass(frozen=True, kw_only=True)
class ReportResult:
    """page: the HTML file; files: all that were written, it included; damages: ranges of the log that couldn't
    be read (with mode="skip-and-report")."""

    page: str
    files: tuple[str, ...]
    summary: Summary
    damages: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Without the single queues; those are in report.json, next to the page."""
        found = as_json(self.summary)
        del found["queues"], found["timeline"]
        return {
            "page": self.page,
            "files": list(self.files),
            "damages": self.damages,
            "seconds": round(self.seconds, 3),
            **found,
        }


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What to report on.

    - slaves: store folders of slaves, compared by how far they reach: of the only store, or of the one with
      the same broker name
    - selection: which messages
    - mode: what to do about damage, as in the source `commitlog`
    - overwrite: write into a folder that has other things than a report, too
    """

    slaves: Sequence[str] = ()
    selection: Selection = EVERYTHING
    mode: Mode = "failfast"
    overwrite: bool = False


def report(
    stores: Sequence[str],
    out: str,
    options: ReportOptions = ReportOptions(),
    *,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> ReportResult:
    """Write a report on some logs into a folder. Raises NotAStore, WrongLogFile, DamagedLogRange,
    NothingToReport, and PipelineError if the folder is something else.

    - stores: folders, one per broker
    - out: folder for the report
    - options: what to report on
    - spark: the session; None: one is made
    - progress: called with (bytes of log read, in all)
    - seconds: the clock that durations are taken from
    """
    begun = seconds()
    check_folder(out, options.overwrite)
    # The slaves first: what the master gets meanwhile counts as lag, never the other way round.
    extents, logs = find_logs(stores, options.slaves)
    folder = Path(out)
    damages = str(folder / DAMAGES)
    folder.mkdir(parents=True, exist_ok=True)
    # Those of an earlier report here.
    shutil.rmtree(damages, ignore_errors=True)
    session = spark or spark_session()
    records = session.read.format("commitlog").options(**_read_options(stores, options.mode, damages)).load()
    step = step_for(1000 * log_seconds(stores, options.mode), CUBE_STEPS)
    cube = reportfigures.cube(reportfigures.facts(options.selection.of(records), step, extents), len(extents))
    with _cached(cube):
        run_action(session, cube.count, progress, sum(end - begin for begin, end in logs.values()))
        summary = summarise(cube, logs, extents)
        if summary is None:
            raise NothingToReport(f"{', '.join(stores)}: no message of those topics and times in the log")
        _write_minutes(cube, folder / MINUTES)
    found = read_damages(session, damages).count() if os.path.isdir(damages) else 0
    files = _write(folder, summary, [*stores, *options.slaves], found)
    return ReportResult(
        page=files[-1], files=tuple(files), summary=summary, damages=found, seconds=seconds() - begun
    )


def check_folder(out: str, overwrite: bool) -> None:
    """Is it a report's, or empty, or not there yet? Raises PipelineError.

    - out: the folder
    - overwrite: it may be something else
    """
    other = other_than(out, OWN, (PAGE,))
    if other is not None and not overwrite:
        raise PipelineError(
            f"{out}: has {other}, which is no part of a report; give another folder, or overwrite what's there"
        )


def _read_options(stores: Sequence[str], mode: str, damages: str) -> dict[str, str]:
    options = {"paths": json.dumps(list(stores)), "columns": ",".join(reportfigures.COLUMNS), "mode": mode}
    return options | ({"damagePath": damages} if mode == "skip-and-report" else {})


@contextmanager
def _cached(frame: DataFrame) -> Iterator[None]:
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        frame.unpersist()


def log_seconds(stores: Sequence[str], mode: Mode) -> int:
    """About how long a time the logs cover: from their first records to their last ones."""
    times = []
    for store in map(LogStore.open, stores):
        last = store.boundary_at_or_before(max(store.min_offset, store.end() - 1))
        for begin in (store.min_offset, last):
            rows = read_arrow([store.path], ["store_timestamp"], mode=mode, begin=begin, end=begin + 1)
            times += rows.read_all().column(0).to_pylist()
    known = [time for time in times if time is not None]
    return round((max(known) - min(known)).total_seconds()) if known else 0


def find_logs(
    stores: Sequence[str], slaves: Sequence[str]
) -> tuple[list[Extent], dict[str, tuple[int, int]]]:
    """(what each slave holds, broker -> (begin, end) of its log)."""
    copies = [(path, LogStore.open(path)) for path in slaves]
    reached = [(path, store, store.end()) for path, store in copies]
    masters = {store.broker: store for store in map(LogStore.open, stores)}
    if len(masters) < len(stores):
        raise PipelineError(
            f"{' and '.join(stores)}: two of them are logs of one broker; give one, and the other as "
            f"its slave"
        )
    extents = [
        Extent(_slave_name(path, masters), _master_of(path, store, masters), store.min_offset, end)
        for path, store, end in reached
    ]
    return extents, {broker: (store.min_offset, store.end()) for broker, store in masters.items()}


def _master_of(path: str, slave: LogStore, masters: Mapping[str, LogStore]) -> str:
    if len(masters) == 1:
        return next(iter(masters))
    if slave.broker in masters:
        return slave.broker
    raise PipelineError(
        f"{path}: is a log of broker {slave.broker}, and the masters are of {', '.join(sorted(masters))};"
        " report on one master with its slaves at a time"
    )


def _slave_name(path: str, masters: Mapping[str, LogStore]) -> str:
    """The last part of the path that says something."""
    parts = [part for part in path.rstrip("/").split("/") if part not in ("store", LOG_FOLDER, "")]
    name = parts[-1] if parts else path
    return path if name in masters else name


def _write_minutes(cube: DataFrame, path: Path) -> None:
    """Row by row: there may be more than the driver should hold."""
    detail = reportfigures.minutes(cube)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(detail.columns)
        writer.writerows((utc_text(moment), *figures) for moment, *figures in detail.toLocalIterator())


def utc_text(moment: int | None) -> str:
    """A time in s since the epoch. Spark would give it to Python in the machine's zone, without saying which, and
    Python has none after the year 9999, which a log may have."""
    return "" if moment is None else f"{np.datetime64(moment, 's')}Z"


def _write(out: Path, summary: Summary, sources: Sequence[str], damages: int) -> list[str]:
    """All but the minutes, the page last; the paths in that order."""
    plots = reportplots.draw_plots(summary)
    files = reportplots.save_plots(plots, out / PLOTS)
    (out / FIGURES).write_text(json.dumps(as_json(summary), indent=1) + "\n", encoding="utf-8")
    draft = out / f".{PAGE}"
    draft.write_text(reportpage.page(summary, plots, sources, MINUTES, damages), encoding="utf-8")
    draft.replace(out / PAGE)
    return [*files, *(str(out / name) for name in (MINUTES, FIGURES, PAGE))]
