"""How often what chance decides is tried: as often as `make test` has time for, or HATWISTED_SOAK times that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _pytest.mark.structures import MarkDecorator, ParameterSet


def times(usual: int) -> int:
    """Repetitions instead of `usual` ones."""
    return usual * int(os.environ.get("HATWISTED_SOAK", "1"))


def in_soak(*values: object, why: str) -> ParameterSet:
    """Parameters of a test that `make soak` alone tries. why: `make test` needn't."""
    import pytest  # here, as the unit layer's tests run by trial, too

    return pytest.param(*values, marks=only_in_soak(why))


def only_in_soak(why: str) -> MarkDecorator:
    """A test, or a module's `pytestmark`, that `make soak` alone runs. why: `make test` needn't."""
    import pytest

    return pytest.mark.skipif(times(1) == 1, reason=f"{why}: `make soak` does")
