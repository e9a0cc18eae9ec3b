"""Where a job may write: a folder with nothing in it, or with what an earlier run made; not a table, a store or a
home that a mistyped name has hit."""

from __future__ import annotations

import os
from collections.abc import Collection

from hatwisted.pipeline.errors import PipelineError
from hatwisted.pipeline.jobs.htmlpage import BEGIN
from hatwisted.wire.storenames import LOST_AND_FOUND


def other_than(folder: str, own: Collection[str], marks: Collection[str]) -> str | None:
    """The first name in a folder that isn't one of a job's; None if there's none, or the job was here before.

    - folder: which, if it's there
    - own: names that the job makes
    - marks: those of them that say that the folder is the job's, whatever else is there
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        if not os.path.lexists(folder):  # nor can it be made
            return None
        raise PipelineError(f"{folder}: isn't a folder; give another name") from error
    if any(name in marks for name in names):
        return None
    # What begins with a dot is the file system's, or its tools'.
    others = (name for name in names if name not in own and name != LOST_AND_FOUND and name[0] != ".")
    return next(others, None)


def check_page(path: str) -> None:
    """A page can be written there, and replaces nothing but one. Raises PipelineError. path: of the file."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise PipelineError(f"{path}: there's no folder {folder}; make it first")
    if not os.path.exists(path):
        if not os.access(folder, os.W_OK):
            raise PipelineError(f"{path}: can't be written: Permission denied")
        return
    with open(path, "rb+") as file:
        if (found := file.read(len(BEGIN))) and found.lower() != BEGIN.encode():
            raise PipelineError(f"{path}: isn't a page, so it isn't overwritten by one; give another name")
