"""What brokers add to what they have done: which slaves lack it, or what couldn't be removed."""

from __future__ import annotations

from typing import Any

import click
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import provider

from hatwisted.cli.cluster.mistakes import Work
from hatwisted.client.cluster import Cluster
from hatwisted.client.driver import NAMESPACE
from hatwisted.wire.printable import printable


def with_remarks(work: Work) -> Work:
    """The same work; remarks on the changes that it makes go to standard error."""

    async def wrapped(cluster: Cluster, interrupt: Any) -> int | None:
        globalLogPublisher.addObserver(_told)
        try:
            return await work(cluster, interrupt)
        finally:
            globalLogPublisher.removeObserver(_told)

    return wrapped


@provider(ILogObserver)
def _told(event: LogEvent) -> None:
    if event.get("log_namespace") == NAMESPACE and "remark" in event:
        click.echo(printable(formatEvent(event)), err=True)
