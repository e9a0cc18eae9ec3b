"""Where an export goes, and that nothing is lost there.

An export is written beside its place and moved there when it is whole: what was there before stays until then. A
folder is replaced if it has nothing but what an export makes: a store, or a home, isn't an export. What an object
store has isn't looked at; there, as at a mount point, nothing can be moved into place: Spark refuses a folder that
exists unless it's asked to overwrite it, and then clears it first.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection
from typing import Final

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.messages.messagefiles import SUFFIXES

_MADE: Final = re.compile(r"part-.*|\.part-.*\.crc|_SUCCESS|\._SUCCESS\.crc|_temporary")
"""Names within a folder that Spark has written."""


def place_of(out: str) -> str:
    """`out` without the scheme of this machine's own files."""
    return re.sub("^file:(//)?(?=/)", "", out)


def is_single(out: str) -> bool:
    """Is it to be one file, by its name?"""
    return os.path.splitext(out)[1].lower() in SUFFIXES


def check_free(out: str, overwrite: bool, stores: Collection[str] = ()) -> None:
    """Raise PipelineError if an export can't go there, or something is there that mustn't be replaced.

    - out: a folder or a file
    - overwrite: an earlier export may be replaced
    - stores: what is exported
    """
    out = place_of(out)
    if "://" in out:
        if is_single(out):
            raise PipelineError(f"{out}: one file is written on this machine only; give a folder there")
        if any(_overlap(out, place_of(store)) for store in stores):
            raise PipelineError(f"{out}: is where the messages are read from; give another folder")
        return
    if not os.path.lexists(out):
        return
    if not overwrite:
        if os.path.isfile(out) or os.listdir(out):
            raise PipelineError(f"{out}: already exists; give another name, or overwrite it")
    elif is_single(out):
        if not os.path.isfile(out):
            raise PipelineError(f"{out}: isn't a file, so it isn't overwritten by one; give another name")
    elif not os.path.isdir(out):
        raise PipelineError(f"{out}: isn't a folder, so it isn't overwritten by one; give another name")
    elif others := sorted(name for name in os.listdir(out) if not _MADE.fullmatch(name)):
        raise PipelineError(
            f"{out}: has {others[0]}, which is no part of an export, so it isn't overwritten; give another folder"
        )


def is_movable(out: str) -> bool:
    """Can an export be moved there when it's whole?"""
    if "://" in out:
        return False
    folder = os.path.dirname(_place(out))
    return not os.path.ismount(out) and (os.access(folder, os.W_OK) or not os.path.exists(folder))


def move_in(out: str, write: Callable[[str], None], check: Callable[[], None]) -> list[str]:
    """Write an export to where `is_movable` says yes; its files. If anything fails, all is as it was before.

    - out: a folder or a file
    - write: called with the folder that is to be filled
    - check: raises if it isn't what was wanted after all
    """
    place = _place(out)
    draft = _beside(place)
    try:
        write(draft)
        check()
        if is_single(out):
            (file,) = data_files(draft)
            os.replace(file, place)
            return [out]
        _exchange(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return data_files(out)


def data_files(folder: str) -> list[str]:
    """What Spark wrote; nothing for a folder that isn't on this machine."""
    if not os.path.isdir(folder):
        return []
    names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
    return [os.path.join(folder, name) for name in names]


def _place(out: str) -> str:
    """A link to a folder stays one; a link to a file is replaced by the file."""
    return os.path.abspath(out) if is_single(out) else os.path.realpath(out)


def _beside(place: str) -> str:
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex}")


def _exchange(draft: str, place: str) -> None:
    """Move a folder to where another one may be, which is removed."""
    if os.path.isdir(place):
        shutil.copymode(place, draft)
    try:
        os.rename(draft, place)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    before = _beside(place)
    os.rename(place, before)
    try:
        os.rename(draft, place)
    except BaseException:
        os.rename(before, place)
        raise
    shutil.rmtree(before)


def _overlap(one: str, other: str) -> bool:
    """Is one of two addresses within the other?"""
    pair = (one.rstrip("/") + "/", other.rstrip("/") + "/")
    return pair[0].startswith(pair[1]) or pair[1].startswith(pair[0])
