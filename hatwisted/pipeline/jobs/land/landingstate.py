"""What a landing keeps next to the table: its name in Delta's log, what it follows, Spark's checkpoint.

    <checkpoint>/landing.json   application id, table id, sources and their kind
    <checkpoint>/lock           held while a landing runs
    <checkpoint>/spark/         Spark's own checkpoint

By default the folder is `_landing/<kind>-<digest>` within the table, where Delta's readers and its vacuum don't
look, so that table and progress are copied, moved and removed together. A checkpoint of another table or of other
sources is refused: with the wrong batch numbers rows would silently be left out or landed twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from hatwisted.pipeline.decode.storebytes import is_remote
from hatwisted.pipeline.delta.names import Writer
from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.ownplace import other_than

FOLDER: Final = "_landing"
STATE: Final = "landing.json"
DRAFT: Final = "landing.json.draft"
LOCK: Final = "lock"
SPARK: Final = "spark"
LOCAL: Final = "local"
"""The kind of a landing's state when it needs no checkpoint of Spark's, and its folder in one that was chosen."""
REPLACED: Final = "spark.replaced"
"""A checkpoint that isn't followed any more, for the moment until it's removed."""
APPLICATION: Final = "hatwisted.land/"
"""Prefix of the application ids of landings in a Delta log."""


class WrongCheckpoint(PipelineError):
    """The checkpoint belongs to another table or to other sources."""


class LandingBusy(PipelineError):
    """Another process lands with the same checkpoint."""


@dataclass(frozen=True)
class LandingState:
    """`fresh`: no batch was ever begun, so Spark asks the source where to start."""

    folder: Path
    application: str
    fresh: bool

    @property
    def spark_folder(self) -> str:
        return str(self.folder / SPARK)

    def looked_at_again(self) -> LandingState:
        """As it is after a query."""
        return replace(self, fresh=_is_fresh(self.folder))

    def renewed(self) -> LandingState:
        """Progress that begins anew, with nothing of Spark's. Its batches are counted from 0 again, so they need
        another application id, and before the old ones are forgotten: those numbers are in the table."""
        state = self.folder / STATE
        fresh = LandingState(self.folder, APPLICATION + uuid.uuid4().hex, True)
        _write(state, json.loads(state.read_text()) | {"application": fresh.application})
        # By one rename: of half a checkpoint Spark says that another query has written it, at every start.
        old = self.folder / REPLACED
        rmtree(old, ignore_errors=True)
        Path(self.spark_folder).rename(old)
        rmtree(old)
        return fresh


@dataclass(frozen=True)
class _Identity:
    table: str
    sources: list[str]
    kind: str


def default_folder(table: str, kind: str, identity: Writer) -> Path:
    """Where a landing keeps its progress by default.

    - table: folder of the table
    - kind: of the sources
    - identity: which they are
    """
    return Path(table, FOLDER, f"{kind}-{identity.digest}")


def check_chosen(folder: str) -> None:
    """Is a folder that was chosen a landing's, or empty, or not there yet? Raises WrongCheckpoint."""
    if is_remote(folder):
        raise WrongCheckpoint(f"{folder}: progress is kept in a folder that this machine has or has mounted")
    other = other_than(folder, (LOCK, SPARK), (STATE, DRAFT, LOCAL))
    if other is not None:
        raise WrongCheckpoint(f"{folder}: has {other}, and is no landing's; give a new folder")


def spark_state_folder(
    table: str, chosen: str | None, folder: str | None, kind: str, identity: Writer
) -> Path:
    """Where a landing by a stream of Spark's keeps its progress. Raises PipelineError if there's no place for it.

    - table: its name, for errors
    - chosen: by the user (`check_chosen`); None: next to the table
    - folder: of the table; None: it isn't on this machine
    - kind: of the sources
    - identity: which they are
    """
    if chosen is not None:
        return Path(chosen).absolute()
    if folder is None:
        raise PipelineError(
            f"{table}: Spark keeps its progress in a folder: give a checkpoint that this machine has or has"
            " mounted"
        )
    return default_folder(folder, kind, identity)


def state_in_table(identity: Writer) -> LandingState:
    """Of a landing that keeps nothing beside the table, as of one at an object store: how far it is, is in the
    table's rows, and of two that run at once, the claim ends the earlier one."""
    return LandingState(Path(), f"{APPLICATION}{identity.digest}", True)


@contextmanager
def landing_state(folder: Path, *, table_id: str, kind: str, identity: Writer) -> Iterator[LandingState]:
    """The progress in a folder, made if there is none; while it's held, no other landing gets it.

    - folder: where it is
    - table_id: of the table that is landed in
    - kind: of the sources
    - identity: which they are
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as lock:
        _take(lock.fileno(), folder)
        yield _load(folder, _Identity(table_id, list(identity.brokers), kind))


def _take(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = (folder / LOCK).read_text().strip()
        raise LandingBusy(
            f"{folder}: process {holder or '?'} lands with this checkpoint; stop it first"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def _load(folder: Path, wanted: _Identity) -> LandingState:
    state = folder / STATE
    if not state.exists():
        return _make(folder, wanted)
    found = json.loads(state.read_text())
    for name, value in asdict(wanted).items():
        if found[name] != value:
            raise WrongCheckpoint(
                f"{folder}: belongs to {name} {_text(found[name])}, not {_text(value)};"
                " give the checkpoint of this landing, or a new folder"
            )
    return LandingState(folder, found["application"], _is_fresh(folder))


def _is_fresh(folder: Path) -> bool:
    return not any(folder.glob(f"{SPARK}/offsets/[0-9]*"))


def _make(folder: Path, identity: _Identity) -> LandingState:
    if (folder / SPARK).exists():
        raise WrongCheckpoint(f"{folder}: has a Spark checkpoint but no {STATE}; give a new folder")
    application = APPLICATION + uuid.uuid4().hex
    _write(folder / STATE, {"application": application, **asdict(identity)})
    return LandingState(folder, application, True)


def _write(path: Path, state: Mapping[str, Any]) -> None:
    draft = path.with_name(DRAFT)
    with draft.open("w") as file:
        json.dump(state, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
