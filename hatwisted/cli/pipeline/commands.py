"""`hatwisted pipeline`: logs as tables. The work is done by the functions in `hatwisted.pipeline.jobs`."""

from __future__ import annotations

from typing import Any

import click

from hatwisted.cli.cluster.namesrvoption import namesrv_option
from hatwisted.cli.errors import EXIT_INTERRUPTED, EXIT_PROBLEMS
from hatwisted.cli.optiongroup import Group
from hatwisted.cli.output import json_option
from hatwisted.cli.pipeline import checks, sourceoptions
from hatwisted.cli.pipeline import pipelinetext as text
from hatwisted.cli.pipeline.account import account_options, connection_values, settings_of
from hatwisted.cli.pipeline.landcommand import land
from hatwisted.cli.pipeline.latestcommand import TABLE_COMMANDS
from hatwisted.cli.pipeline.sourceoptions import read_from, selection_options, source_options, stores_argument
from hatwisted.cli.pipeline.sparkrun import (
    JobBar,
    job,
    master_option,
    print_result,
    session,
)
from hatwisted.wire.printable import printable

FOLDER = click.Path(exists=True, file_okay=False)
NEW_FOLDER = click.Path(file_okay=False)
ANY_PATH = click.Path()


@click.group(cls=Group)
def pipeline() -> None:
    """Logs as tables: land, audit, rebuild, report, export, import.

    A STORE is a broker's store folder, a master's or a slave's; it is only read. Spark does the
    work, on this machine unless --master names a cluster; land does without it for what is small.

    Exit codes: 0 everything in order; 1 problems found; 2 not done; 130 interrupted.
    """


pipeline.add_command(land)
for each in TABLE_COMMANDS:
    pipeline.add_command(each)


@pipeline.command(short_help="Compare copies of a log record by record.")
@stores_argument(1, "STORE...")
@click.option(
    "-t",
    "--table",
    "tables",
    multiple=True,
    help="A table into which the broker's log was landed, named as for land; may be repeated.",
)
@click.option("--table-broker", help="Broker whose rows to compare, if the tables have several brokers'.")
@click.option("--allow-lag", is_flag=True, help="Don't count a copy that ends earlier as different.")
@click.option("--begin", type=click.IntRange(0), help="Compare from this physical offset on.")
@click.option("--end", type=click.IntRange(0), help="Compare up to this physical offset.")
@click.option("--no-crc", is_flag=True, help="Don't compute the bodies' checksums.")
@click.option(
    "--html", type=click.Path(dir_okay=False), help="Also write the report as an HTML page to this file."
)
@master_option
@json_option
@job
def audit(
    stores: tuple[str, ...], tables: tuple[str, ...], html: str | None, as_json: bool, **options: Any
) -> int:
    """Compare the copies of one broker's log record by record: master, slaves, landed tables.

    The first STORE is the reference.

    Exit codes: 0 they agree; 1 they differ; 2 not done; 130 interrupted.
    """
    from hatwisted.pipeline.jobs.audit import auditing
    from hatwisted.pipeline.jobs.audit.auditreport import audit_page

    if len(stores) + len(tables) < 2:
        raise click.UsageError("an audit compares at least two copies: STORE STORE... or STORE --table TABLE")
    checks.check_stores(stores)
    checks.check_tables(tables)
    checks.check_page(html)
    with JobBar("audit") as bar:
        result = auditing.audit(
            session(options["master"], options["conf"]),
            stores,
            tables,
            auditing.AuditOptions(
                table_broker=options["table_broker"],
                span=auditing.Span(options["begin"], options["end"]),
                allow_lag=options["allow_lag"],
                check_crc=not options["no_crc"],
            ),
            progress=bar,
        )
    if html is not None:
        with open(html, "w", encoding="utf-8") as file:
            file.write(audit_page(result))
    print_result(result, as_json, text.audit_lines)
    return int(result.exit_code)


@pipeline.command(short_help="Rebuild consume queues and index from a commit log.")
@click.argument("store", type=FOLDER)
@click.option(
    "-o",
    "--target",
    type=NEW_FOLDER,
    help="Folder in which consumequeue and index are built; by default STORE itself.",
)
@click.option(
    "--replace", is_flag=True, help="Replace existing queues and index. No broker may be using the store."
)
@click.option("--no-index", is_flag=True, help="Build the consume queues only.")
@click.option("--queue-file-size", type=click.IntRange(20), help="mappedFileSizeConsumeQueue.")
@click.option("--index-slots", type=click.IntRange(1), help="maxHashSlotNum.")
@click.option("--index-items", type=click.IntRange(2), help="maxIndexNum.")
@click.option("--delay-levels", help="messageDelayLevel, if the broker's isn't the default.")
@click.option("--skip-damage", is_flag=True, help="Skip damage in the log, and report it.")
@master_option
@json_option
@job
def reindex(store: str, target: str | None, as_json: bool, **options: Any) -> int:
    """Rebuild consume queues and index from a commit log, byte for byte as a broker builds them.

    Exit codes: 0 built; 1 built, but there was damage, or there are records without an entry; 2 not done; 130
    interrupted.
    """
    from hatwisted.pipeline.jobs.reindex import reindexing as indexing

    layout = {
        "queue_file_size": options["queue_file_size"],
        "slots": options["index_slots"],
        "items": options["index_items"],
        "index": not options["no_index"],
    }
    if options["delay_levels"] is not None:
        layout["delay_levels"] = options["delay_levels"]
    checks.check_reindex(store, target or store, options["replace"], indexing.Layout(**layout).folders)
    with JobBar("reindex") as bar:
        result = indexing.reindex(
            session(options["master"], options["conf"]),
            store,
            target or store,
            indexing.ReindexOptions(
                layout=indexing.Layout(**layout),
                replace_existing=options["replace"],
                skip_damage=options["skip_damage"],
            ),
            progress=bar,
        )
    print_result(result, as_json, text.reindex_lines)
    return int(result.exit_code)


@pipeline.command(short_help="Report throughput, sizes, latencies and lag of logs.")
@stores_argument(1, "STORE...")
@click.option(
    "-o",
    "--out",
    default="report",
    show_default=True,
    type=NEW_FOLDER,
    help="Folder for the page and the plots.",
)
@click.option(
    "--slave",
    "slaves",
    multiple=True,
    type=FOLDER,
    help="A slave's store, whose lag is reported; may be repeated.",
)
@click.option("--skip-damage", is_flag=True, help="Skip damage in a log, and report it.")
@click.option("--overwrite", is_flag=True, help="Write into a folder that has other things than a report.")
@selection_options
@master_option
@json_option
@job
def report(stores: tuple[str, ...], slaves: tuple[str, ...], out: str, as_json: bool, **options: Any) -> int:
    """Report throughput, sizes, latencies and lag of logs, as a page with plots.

    Give one STORE per broker.

    Exit codes: 0 reported; 1 reported, and a log is damaged; 2 not done; 130 interrupted.
    """
    from hatwisted.pipeline.jobs.report import reporting

    checks.check_report(stores, slaves, out, overwrite=options["overwrite"])
    with JobBar("report") as bar:
        result = reporting.report(
            stores,
            out,
            reporting.ReportOptions(
                slaves=slaves,
                selection=sourceoptions.selection(options),
                mode="skip-and-report" if options["skip_damage"] else "failfast",
                overwrite=options["overwrite"],
            ),
            spark=session(options["master"], options["conf"]),
            progress=bar,
        )
    print_result(result, as_json, text.report_lines)
    return EXIT_PROBLEMS if result.damages else 0


@pipeline.command(short_help="Write messages as NDJSON, CSV or Parquet files.")
@stores_argument(0, "[STORE...]")
@source_options
@click.option(
    "-o", "--out", required=True, type=ANY_PATH, help="A folder, or a file named .ndjson, .csv or .parquet."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "csv", "parquet"]),
    help="Format of the files in a folder.",
)
@click.option("--columns", help="Columns of the table to export, separated by commas.")
@click.option("--overwrite", is_flag=True, help="Replace existing files, once the new ones are whole.")
@click.option("--allow-empty", is_flag=True, help="Accept a --topic that the STOREs don't have.")
@selection_options
@master_option
@json_option
@job
def export(stores: tuple[str, ...], out: str, as_json: bool, **options: Any) -> int:
    """Write messages as NDJSON, CSV or Parquet files, which import takes as well.

    The messages are those of STOREs, or of a cluster over the network. A line of NDJSON is one as `consume --json`
    prints it; CSV and Parquet have the columns of a landed table.

    Exit codes: 0 written; 1 written, and a log is damaged; 2 not done; 130 interrupted.
    """
    from hatwisted.pipeline.jobs.messages import export as exporting

    source = read_from(stores, options["topics"], options)
    columns = options["columns"].split(",") if options["columns"] else None
    checks.check_export(stores, out, columns, overwrite=options["overwrite"])
    with JobBar("export") as bar:
        result = exporting.export(
            exporting.Source.stores(stores, options["source"])
            if stores
            else exporting.Source(source.format, source.options()),
            out,
            exporting.ExportOptions(
                form=options["form"],
                columns=columns,
                selection=sourceoptions.selection(options),
                own_topics=options["topics"],
                overwrite=options["overwrite"],
                allow_empty=options["allow_empty"],
            ),
            spark=session(options["master"], options["conf"]),
            progress=bar,
        )
    print_result(result, as_json, text.export_lines)
    return EXIT_PROBLEMS if result.damages else 0


@pipeline.command("import", short_help="Send the messages in files to a cluster.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True), metavar="FILE...")
@namesrv_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "csv", "parquet"]),
    help="Format of FILEs whose names don't say.",
)
@click.option("--topic", help="Send all messages to this topic, whatever topic they came from.")
@click.option(
    "--queues",
    type=click.Choice(["keep", "any"]),
    default="keep",
    show_default=True,
    help="Send each message to the queue it came from, or spread them over all.",
)
@click.option(
    "--keep-born", is_flag=True, help="Keep the born timestamps. Slower: fewer messages share a request."
)
@click.option(
    "--skip", type=click.IntRange(0), default=0, metavar="ROWS", help="Skip this many rows at the start."
)
@click.option(
    "--option",
    "source",
    multiple=True,
    metavar="KEY=VALUE",
    callback=connection_values,
    help="An option of the connection, as for the source rocketmq (tls, retries, ...).",
)
@account_options
@json_option
@job
def import_command(files: tuple[str, ...], namesrv: str, as_json: bool, **options: Any) -> int:
    """Send the messages in FILEs (or in folders of files) to a cluster, each queue in order.

    They are what `export` writes, or lines of `consume --json`, `msg get --json` or `log dump --json`. Needs no
    Spark.

    Exit codes: 0 all stored; 1 some were refused, or were stored but not flushed or replicated in time; 2 not
    done, or not to the end: the error then says where to continue; 130 interrupted, likewise.
    """
    from hatwisted.pipeline.jobs.messages.importing import ImportInterrupted, Sending, import_messages

    try:
        with JobBar("import", "") as bar:
            result = import_messages(
                files,
                settings_of(namesrv, options["source"]),
                sending=Sending(options["topic"], options["queues"], options["keep_born"]),
                form=options["form"],
                skip=options["skip"],
                progress=bar,
            )
    except ImportInterrupted as error:
        click.echo(printable(f"Error: {error}"), err=True)
        return EXIT_INTERRUPTED
    print_result(result, as_json, text.import_lines)
    return result.exit_code
