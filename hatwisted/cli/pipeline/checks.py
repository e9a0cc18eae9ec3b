"""What can be refused before Spark starts: six seconds and a JVM are too much for a misspelt folder.

The jobs check the same once more: between here and there things change, and programs call them without us. A path
with a scheme is left to them, as fsspec has to reach it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import abspath, isdir
from typing import Final

LOCAL: Final = "://"
"""What a path on this machine doesn't have."""


def check_stores(stores: Sequence[str], columns: Sequence[str] | None = None) -> None:
    """These are stores' folders, and logs have these columns. Raises PipelineError."""
    from hatwisted.pipeline.decode.arrowschema import check_columns
    from hatwisted.pipeline.decode.storefolder import LogStore

    for path in stores:
        if LOCAL not in path:
            LogStore.open(path)
    if columns is not None:
        check_columns(columns)


def check_landing(stores: Sequence[str], columns: Sequence[str] | None, checkpoint: str | None) -> None:
    """These are stores that have these columns, and a landing can keep its progress there. Raises PipelineError.

    - stores: the logs
    - columns: of them; None: all
    - checkpoint: folder for the progress, if one is given
    """
    from hatwisted.pipeline.jobs.land.landingstate import check_chosen

    check_stores(stores, columns)
    if checkpoint is not None:
        check_chosen(checkpoint)


def check_options(given: Mapping[str, str], *, cluster: bool) -> None:
    """The source has such options. Raises PipelineError.

    - given: of the source
    - cluster: it's a cluster; otherwise stores
    """
    if not given:
        return
    if cluster:
        from hatwisted.pipeline.spark.rocketmqoptions import rocketmq_options

        rocketmq_options(given)
        return
    from hatwisted.pipeline.spark.readoptions import Options
    from hatwisted.pipeline.spark.storelist import LOG_OPTIONS

    Options("commitlog", given, LOG_OPTIONS)


def check_tables(tables: Sequence[str]) -> None:
    """There are such tables. Raises PipelineError."""
    from hatwisted.pipeline.errors import NotAStore
    from hatwisted.pipeline.iceberg.catalogs import IcebergName, is_iceberg

    for table in tables:
        if is_iceberg(table):
            IcebergName.parse(table).load()
        elif LOCAL not in table and not isdir(table):
            raise NotAStore(f"{table}: no such folder")


def check_page(path: str | None) -> None:
    """A page can be written there, if it's to be. Raises PipelineError."""
    from hatwisted.pipeline.jobs import ownplace

    if path is not None:
        ownplace.check_page(path)


def check_report(stores: Sequence[str], slaves: Sequence[str], out: str, *, overwrite: bool) -> None:
    """Which broker's each log is can be told, and there's a place for a report. Raises PipelineError.

    - stores: the logs
    - slaves: of their brokers
    - out: folder of the report
    - overwrite: it may be something else
    """
    from hatwisted.pipeline.jobs.report.reporting import check_folder, find_logs

    check_folder(out, overwrite)
    if not any(LOCAL in path for path in (*stores, *slaves)):
        find_logs(stores, slaves)


def check_export(stores: Sequence[str], out: str, columns: Sequence[str] | None, *, overwrite: bool) -> None:
    """Nothing is there yet that mustn't be replaced, and there are these columns. Raises PipelineError.

    - stores: folders of messages
    - out: where they go
    - columns: of them; None: all
    - overwrite: what is there may be replaced
    """
    from hatwisted.pipeline.jobs.messages.exportplace import check_free

    check_free(out, overwrite, stores)
    check_stores(stores, columns)


def check_reindex(store: str, target: str, replace: bool, folders: Sequence[str]) -> None:
    """It is a store, and the target has no such folders yet. Raises PipelineError.

    - store: whose queues and index are built
    - target: where
    - replace: the folders may be there
    - folders: which
    """
    from hatwisted.pipeline.jobs.reindex.newfolders import check_new

    check_stores([store])
    if not replace:
        check_new(abspath(target), folders)
