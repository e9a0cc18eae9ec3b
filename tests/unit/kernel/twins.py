"""Both twins of the kernel, whichever of them the process uses."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from hatwisted.kernel import pure
from hatwisted.kernel.choice import compiled_parts

PARTS: dict[str, ModuleType] = compiled_parts()
NOT_BUILT = "" if PARTS else "the compiled twin isn't built here"


def compiled() -> SimpleNamespace:
    """The compiled twin; only where it is built."""
    names = ("_requests", "_admission", "_records", "_answers")
    requests, admission, records, answers = (PARTS[name] for name in names)
    return SimpleNamespace(
        RunEncoder=records.RunEncoder,
        decode_batch=records.decode_batch,
        take_sends=requests.take_sends,
        UsualPuts=admission.UsualPuts,
        SendAnswers=answers.SendAnswers,
    )


def twins() -> list[ModuleType | SimpleNamespace]:
    """Those that are there: Python's first."""
    return [pure, compiled()] if PARTS else [pure]
