"""What went wrong in a worker, in one line again.

An error of ours that is raised in one of Spark's Python processes comes back as Spark's exception with a Python
traceback, sometimes several, inside its text. The line that the user needs is in there.
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
