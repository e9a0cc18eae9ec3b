"""`hatwisted pipeline latest`: the last message of each key, as a table."""

from __future__ import annotations

from typing import Final

import click

from hatwisted.cli.output import json_option
from hatwisted.cli.pipeline import pipelinetext as text
from hatwisted.cli.pipeline.deadlettercommand import dead_letters
from hatwisted.cli.pipeline.sparkrun import JobBar, job, print_result


@click.command(short_help="Keep the last message of each key of a table.")
@click.argument("table", type=click.Path(file_okay=False))
@click.argument("into", type=click.Path(file_okay=False))
@click.option(
    "--key", default="keys", show_default=True, metavar="COLUMN", help="Column of TABLE that is the key."
)
@click.option("--topic", "topics", multiple=True, help="Only messages of this topic; may be repeated.")
@json_option
@job
def latest(table: str, into: str, key: str, topics: tuple[str, ...], as_json: bool) -> None:
    """Keep in INTO the last message of each key of TABLE, a landed one.

    What has landed since the last run is merged. Where a key's last message has no body, its row has null. Each is
    a Delta table, or an Iceberg table (iceberg:CATALOG.NAMESPACE.TABLE). Needs no Spark.

    Exit codes: 0 done; 2 not done; 130 interrupted.
    """
    from hatwisted.pipeline.jobs.latest import latesttable

    with JobBar("latest", ": reading the tables") as bar:
        result = latesttable.latest(table, into, key=key, topics=topics, progress=bar)
    print_result(result, as_json, text.latest_lines)


TABLE_COMMANDS: Final = (dead_letters, latest)
"""Those on tables alone."""
