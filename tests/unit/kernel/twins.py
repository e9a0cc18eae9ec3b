"""Both twins of the kernel, whichever of them the process uses."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from hatwisted.kernel import pure
from hatwisted.kernel.choice import NAMES, compiled_parts

PARTS: dict[str, ModuleType] = compiled_parts()
NOT_BUILT = "" if PARTS else "the compiled twin isn't built here"


def compiled() -> SimpleNamespace:
    """The compiled twin; only where it is built."""
    requests, admission, records, answers, dispatch = (PARTS[name] for name in NAMES)
    return SimpleNamespace(
        RunEncoder=records.RunEncoder,
        decode_batch=records.decode_batch,
        take_sends=requests.take_sends,
        UsualPuts=admission.UsualPuts,
        SendAnswers=answers.SendAnswers,
        usual_records=dispatch.usual_records,
    )


def twins() -> list[ModuleType | SimpleNamespace]:
    """Those that are there: Python's first."""
    return [pure, compiled()] if PARTS else [pure]
