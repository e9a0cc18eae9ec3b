"""`python -m hatwisted.demo`, which `make run` calls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hatwisted.demo.cluster import Cluster, DemoError, free_ports
from hatwisted.demo.inputs import InputError, open_source
from hatwisted.demo.scenario import Scenario
from hatwisted.demo.screen import Screen
from hatwisted.demo.traffic import SECONDS, Several, Traffic

# The commit log of a RocketMQ 4.9.7 master: plain and batched messages, delayed ones, transactions.
CAPTURED_STORE = Path(__file__).with_name("store")


@click.command()
@click.option(
    "--input", "path", help="Text or NDJSON file, or RocketMQ store folder, instead of a captured store."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 3600),
    help=f"Then so long a shop's messages. [{SECONDS:g} after the captured store, else 0]",
)
@click.option(
    "--once", is_flag=True, help="Exit after the check, with status 0 if everything was right and 1 if not."
)
@click.option(
    "--pipeline/--no-pipeline", default=True, show_default=True, help="Land, audit and report with Spark."
)
@click.option("--var", default="var", show_default=True, help="Folder for stores and logs.")
def main(path: str | None, seconds: float | None, once: bool, pipeline: bool, var: str) -> None:
    """Send an input through a name server, a SYNC master and a slave, and check the copy."""
    from twisted.internet import reactor

    try:
        sources = [open_source(os.path.expanduser(path or str(CAPTURED_STORE)))]
        if seconds is None:
            seconds = 0 if path else SECONDS
        if seconds:
            sources.append(Traffic(seconds))
        source = Several(sources)
        cluster = Cluster(reactor, os.path.abspath(os.path.join(var, "demo")), free_ports())
    except (InputError, DemoError) as error:
        raise click.ClickException(str(error)) from None
    scenario = Scenario(reactor, cluster, source, Screen(), once, pipeline)
    reactor.callWhenRunning(scenario.start)
    reactor.run()
    sys.exit(scenario.status)


if __name__ == "__main__":
    main()
