"""`hatwisted pipeline land`: its options, and which engine they mean."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hatwisted.cli.errors import EXIT_INTERRUPTED, EXIT_PROBLEMS
from hatwisted.cli.optiongroup import Command
from hatwisted.cli.optionvalues import Size
from hatwisted.cli.output import json_option
from hatwisted.cli.pipeline import checks
from hatwisted.cli.pipeline import pipelinetext as text
from hatwisted.cli.pipeline.joblines import JobLines
from hatwisted.cli.pipeline.landingoptions import following_options, upkeep_options
from hatwisted.cli.pipeline.sourceoptions import read_from, source_options, stores_argument
from hatwisted.cli.pipeline.sparkrun import JobBar, chose_spark, job, master_option, print_result, session

if TYPE_CHECKING:
    from hatwisted.pipeline.jobs.land.landoptions import LandResult

NEW_FOLDER = click.Path(file_okay=False)


@click.command(cls=Command, short_help="Land logs in a table, each record once.")
@stores_argument(0, "[STORE...]")
@click.argument("table", type=NEW_FOLDER)
@source_options
@click.option("--topic", "topics", multiple=True, help="With -n: this topic; may be repeated.")
@following_options
@click.option(
    "--checkpoint", type=NEW_FOLDER, help="Folder for the landing's progress; by default next to the table."
)
@click.option("--columns", help="Columns to land, separated by commas; all by default.")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="TOPIC=FORMAT:FILE",
    help="Land the bodies of TOPIC as a typed column, too. FORMAT is json, avro, avro-single, avro-confluent or "
    "protobuf, where FILE is FILE:MESSAGE. May be repeated.",
)
@click.option("--max-bytes", type=Size(), help="Maximum bytes of log in one commit.")
@upkeep_options
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="What lands: Spark, or this process alone; auto: Spark for more than a GiB, or what only it can do.",
)
@master_option
@json_option
@job
def land(stores: tuple[str, ...], table: str, follow: bool, as_json: bool, **options: Any) -> int:
    """Land logs in a table, each record once, however often the command is killed.

    The logs are those of STOREs, one per broker, or of a cluster over the network. TABLE is the folder of a Delta
    table, here or at an object store (s3://BUCKET/FOLDER), or names an Iceberg table
    (iceberg:CATALOG.NAMESPACE.TABLE).

    With --schema, bodies become columns. Those that don't fit are counted and kept in the table TABLE__dlq, with
    the reason; all others land as they do without.

    Exit codes: 0 landed; 1 landed, and a log is damaged or a body doesn't fit; 2 not done; 130 interrupted.
    """
    # What is imported and looked at takes a second or more where much else runs.
    with _watched(follow) as bar:
        result = _landed(stores, table, follow, options, bar)
    print_result(result, as_json, text.land_lines)
    # With --follow there is no other way to end.
    if result.stopped and not follow:
        return EXIT_INTERRUPTED
    return EXIT_PROBLEMS if result.damages or result.dead_letters else 0


def _watched(follow: bool) -> AbstractContextManager[JobBar | JobLines]:
    """Who tells how far it is."""
    if follow and not sys.stderr.isatty():
        return nullcontext(JobLines("land"))
    return JobBar("land", ": starting")


def _landed(
    stores: tuple[str, ...], table: str, follow: bool, options: dict[str, Any], bar: JobBar | JobLines
) -> LandResult:
    from hatwisted.pipeline.jobs.land import landing, landoptions
    from hatwisted.pipeline.schemas.topicschemas import parse_schemas

    how = landoptions.LandOptions(
        engine=options["engine"],
        mode="continuous" if follow else "once",
        every=options["every"],
        checkpoint=options["checkpoint"],
        columns=options["columns"].split(",") if options["columns"] else None,
        max_bytes_per_trigger=options["max_bytes"] or landoptions.MAX_BYTES_PER_TRIGGER,
        compact_below=None if options["no_compact"] else landoptions.COMPACT_BELOW,
        vacuum=options["vacuum"],
        schemas=parse_schemas(options["schemas"]),
    )
    checks.check_landing(stores, how.columns, how.checkpoint)
    source = read_from(stores, options["topics"], options, whole=True)
    named = how.engine == "auto" and chose_spark(options)
    bar.waits_for(landoptions.READING)
    engine = "spark" if named else landing.engine_for(source, table, how)
    spark = partial(session, options["master"], options["conf"]) if engine == "spark" else None
    if spark is not None and not landing.is_done(source, table, how):
        bar.waits_for(landoptions.SPARK)
        spark()  # before anything is written, in case that it can't
    return landing.land(source, table, how, spark=spark, progress=bar)
