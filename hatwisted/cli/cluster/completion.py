"""What the shell offers after TAB: topics and groups of the cluster that NAMESRV_ADDR or -n names.

Completion prints nothing and keeps nobody waiting: a cluster that doesn't answer in time has nothing to offer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import click

from hatwisted.cli.cluster.clusterrun import Interrupt, run_reactor
from hatwisted.client.admin import Admin
from hatwisted.client.cluster import Cluster
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

ANSWER_TIMEOUT: Final = 1.0
"""Seconds for the cluster to answer."""


def topics(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """As click's shell_complete: topics that begin with what is typed; those of retries and dead letters only once
    something is typed.
    """
    found = _ask(context, lambda admin: admin.topics())
    inner = (RETRY_PREFIX, DLQ_PREFIX)
    return [each for each in found if each.startswith(begun) and (begun or not each.startswith(inner))]


def groups(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """As click's shell_complete: consumer groups that begin with what is typed."""
    return [each for each in _ask(context, lambda admin: admin.groups()) if each.startswith(begun)]


def _ask(context: click.Context, question: Callable[[Admin], Awaitable[Iterable[str]]]) -> list[str]:
    found: list[str] = []

    async def work(cluster: Cluster, _: Interrupt) -> None:
        asked: Any = question(cluster.admin())
        found.extend(await asked.addTimeout(ANSWER_TIMEOUT, cluster.clock))

    logging.disable()
    try:
        with context.scope(cleanup=False):
            run_reactor(context.params["namesrv"], work)
    except Exception:
        return []
    # A shell takes a name in lines for several.
    return [each for each in found if each.isprintable()]
