"""Coroutines of the client's logic as methods that return Deferreds."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from twisted.internet.defer import Deferred

from hatwisted.client.driver import deferred
from hatwisted.clientcore.tasks import Work

P = ParamSpec("P")
T = TypeVar("T")


def returning_deferred(
    method: Callable[Concatenate[Any, P], Work[T]],
) -> Callable[Concatenate[Any, P], Deferred[T]]:
    """`method` of the object's `_core`, begun at once; the Deferred fires with what it returns or raises."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        return deferred(method(self._core, *args, **kwargs))

    return update_wrapper(call, method)
