"""What went wrong in a worker, as one line.

An error of ours that is raised in one of Spark's Python processes arrives as Spark's exception with a Python
traceback, sometimes several, inside its text. The line that the user needs is in that text.
"""

from __future__ import annotations

import re
from typing import Final

_OURS: Final = re.compile(r"^(?:\S*: )*?hatwisted\.(?:pipeline|clientcore)\.[\w.]+: (.+)$", re.MULTILINE)


def reason_of(error: BaseException) -> str | None:
    """The message of the PipelineError or ClientError that made Spark fail with `error`; None if it wasn't
    one of ours."""
    found = _OURS.findall(str(error))
    return found[-1].strip() if found else None
