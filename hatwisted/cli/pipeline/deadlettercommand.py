"""`hatwisted pipeline dead-letters`: bodies that didn't fit their topic's schema, shown or landed after all."""

from __future__ import annotations

import click

from hatwisted.cli.errors import EXIT_PROBLEMS
from hatwisted.cli.output import json_option
from hatwisted.cli.pipeline import pipelinetext as text
from hatwisted.cli.pipeline.sparkrun import JobBar, job, print_result


@click.command("dead-letters", short_help="Show which bodies didn't fit their topic's schema.")
@click.argument("table", type=click.Path(file_okay=False))
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="TOPIC=FORMAT:FILE",
    help="Land those of TOPIC that fit this schema, as of the command land; may be repeated.",
)
@json_option
@job
def dead_letters(table: str, schemas: tuple[str, ...], as_json: bool) -> int:
    """Show which bodies of TABLE didn't fit their topic's schema, and why.

    TABLE is a landed table: its folder, its address at an object store, or iceberg:CATALOG.NAMESPACE.TABLE. With
    --schema, once it's mended, those that fit now get their value in TABLE, and are dead letters no longer.
    Needs no Spark.

    Exit codes: 0 there are none, or none any more; 1 there are some; 2 not done; 130 interrupted.
    """
    from hatwisted.pipeline.jobs.land import deadletterjob
    from hatwisted.pipeline.schemas.topicschemas import parse_schemas

    with JobBar("dead letters", ": reading them"):
        result = deadletterjob.dead_letters(table, parse_schemas(schemas))
    print_result(result, as_json, text.dead_letter_lines)
    return EXIT_PROBLEMS if result.left else 0
