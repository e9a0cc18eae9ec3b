"""`hatwisted`: the entry point of all commands.

Exit codes: 0 everything in order, 1 problems found, 2 not done (wrong usage, no such store, store in use).
Results go to standard output, progress and warnings to standard error. Errors of the user and of the system end
in one line, never in a traceback.
"""

from __future__ import annotations

from typing import Any

import click

from hatwisted import __version__
from hatwisted.cli.errors import of_system
from hatwisted.cli.lazygroup import LazyGroup


class Main(LazyGroup):
    """All commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click's; what the system refuses is one line, a full disk behind standard output for example."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click's: it ends without a word
        except OSError as error:
            raise of_system(error) from error


@click.group(
    cls=Main,
    places={
        "attach": "hatwisted.cli.cluster.attach:attach",
        "audit": "hatwisted.cli.cluster.audit:audit",
        "broker": "hatwisted.cli.cluster.broker:broker",
        "cluster": "hatwisted.cli.cluster.brokerlist:cluster",
        "conf": "hatwisted.cli.host.conf:conf",
        "consume": "hatwisted.cli.cluster.consume:consume",
        "doctor": "hatwisted.cli.host.doctor:doctor",
        "group": "hatwisted.cli.cluster.group:group",
        "log": "hatwisted.cli.log.loggroup:log",
        "msg": "hatwisted.cli.cluster.msg:msg",
        "pipeline": "hatwisted.cli.pipeline.commands:pipeline",
        "produce": "hatwisted.cli.cluster.produce:produce",
        "status": "hatwisted.cli.cluster.status:status",
        "topic": "hatwisted.cli.cluster.topic:topic",
        "up": "hatwisted.cli.host.up:up",
    },
    helps={
        "attach": "Make a copy of a running master on this host: a slave of it.",
        "audit": "Compare the logs of a running master and slave, each HOST:PORT.",
        "broker": "Look at one broker and change its settings.",
        "cluster": "Show the brokers of a cluster, and how they are.",
        "conf": "Samples of a configuration, checks of one, and what a key means.",
        "consume": "Print the messages of a topic.",
        "doctor": "Say whether a broker can run on this host, and what to do.",
        "group": "List, watch, move, create and delete consumer groups.",
        "log": "Inspect, check and repair a commit log.",
        "msg": "Find single messages.",
        "pipeline": "Logs as tables: land, audit, rebuild, report, export, import.",
        "produce": "Send lines of standard input as messages to a topic.",
        "status": "Show how all brokers are, who is behind, and what to do.",
        "topic": "List, create and delete topics.",
        "up": "Run a whole group on this machine, for trying out.",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="hatwisted")
def main() -> None:
    """Tools for RocketMQ-compatible clusters and message stores."""
