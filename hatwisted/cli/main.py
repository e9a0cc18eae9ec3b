"""`hatwisted`: the entry point of all commands.

Exit codes: 0 everything in order, 1 problems found, 2 not done (wrong usage, no such store, store in use).
Results go to standard output, progress and warnings to standard error. Errors of the user and of the system end
in one line, never in a traceback.
"""

from __future__ import annotations

import click

from hatwisted import __version__
from hatwisted.cli.lazygroup import LazyGroup


@click.group(
    cls=LazyGroup,
    places={
        "attach": "hatwisted.cli.cluster.attach:attach",
        "audit": "hatwisted.cli.cluster.audit:audit",
        "cluster": "hatwisted.cli.cluster.brokerlist:cluster",
        "conf": "hatwisted.cli.host.conf:conf",
        "consume": "hatwisted.cli.cluster.consume:consume",
        "group": "hatwisted.cli.cluster.group:group",
        "log": "hatwisted.cli.log.loggroup:log",
        "pipeline": "hatwisted.cli.pipeline.commands:pipeline",
        "produce": "hatwisted.cli.cluster.produce:produce",
        "status": "hatwisted.cli.cluster.status:status",
        "up": "hatwisted.cli.host.up:up",
        "topic": "hatwisted.cli.cluster.topic:topic",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="hatwisted")
def main() -> None:
    """Tools for RocketMQ-compatible clusters and message stores."""
