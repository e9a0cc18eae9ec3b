"""Rebuilding consume queues and index from the log, while no broker runs.

The rebuild is `pipeline reindex`'s, on this machine alone: the log is read in order, so that its end is found by
the same walk that recovery takes, and damage in its middle is distinguished from what an earlier cut left.

The new folders take their place by a rename once everything is on disk: a rebuild that fails, or is interrupted,
leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from os.path import join

import msgspec

from hatwisted.cli.errors import CannotRun
from hatwisted.cli.log.storesizes import StoreFolder
from hatwisted.logcodec.rangedispatch import DispatchOptions
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.reindex.newfolders import NewFolders
from hatwisted.pipeline.jobs.reindex.reindexing import Layout
from hatwisted.pipeline.jobs.reindex.twopass import ReadOptions, Rebuild, deleted_ends, read_in_order
from hatwisted.pipeline.jobs.workertasks import InlineTasks
from hatwisted.store.errors import DamagedLog, StoreFull
from hatwisted.store.log.filequeue import NO_ROOM, FileQueue
from hatwisted.wire.storenames import QUEUE_FOLDER


class RebuildReport(msgspec.Struct, rename="camel"):
    """What was built. end: log offset up to which; carried_over: queues without records in the log."""

    directory: str
    end: int
    queues: int
    queue_entries: int
    carried_over: int
    index_files: int


def rebuild(
    folder: StoreFolder, log: FileQueue, layout: Layout, progress: Callable[[int], None]
) -> RebuildReport:
    """Build, make durable, swap. DamagedLog if the log has damage in the middle, StoreFull without room. Whatever
    fails before the swap, the store is as it was.

    - folder: a store that is locked
    - log: its log
    - layout: sizes of what is built
    - progress: called with the offset reached
    """
    root = folder.required_root()
    try:
        folders = NewFolders(root, layout.folders, replace=True)
    except PipelineError as error:
        raise CannotRun(str(error)) from error
    try:
        dispatch = DispatchOptions(
            delay_levels=layout.levels(), keys=layout.index, deleted=deleted_ends(root)
        )
        options = ReadOptions(dispatch=dispatch)
        parts, walk = read_in_order(log, log.min_offset, folders.path, options, progress)
        for damage in walk.damages:
            raise DamagedLog(*damage[:2], walk.written, damage.reason, log.path_of(damage.offset))
        second = Rebuild(
            InlineTasks(), folders.path, layout.of(root), join(root, QUEUE_FOLDER), log.min_offset
        )
        built = second.build(parts)
        folders.put_in_place(lock=False)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StoreFull(f"no room in {root} for new queues and index: {error.strerror}") from error
        raise
    except PipelineError as error:
        raise CannotRun(str(error)) from error
    finally:
        folders.discard()
    return RebuildReport(
        directory=folder.path,
        end=walk.at,
        queues=built.queues - built.carried_over,
        queue_entries=built.entries,
        carried_over=built.carried_over,
        index_files=built.index_files,
    )
