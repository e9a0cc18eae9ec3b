"""Where an export goes, and that nothing is lost there.

Spark clears the folder that it overwrites, whatever is in it. So a folder is overwritten if it has nothing but
what an export makes: a store, or a home, isn't an export. What an object store has isn't looked at; there Spark
refuses a folder that exists unless it's asked to overwrite it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
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


def _overlap(one: str, other: str) -> bool:
    """Is one of two addresses within the other?"""
    pair = (one.rstrip("/") + "/", other.rstrip("/") + "/")
    return pair[0].startswith(pair[1]) or pair[1].startswith(pair[0])
