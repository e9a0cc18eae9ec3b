"""Options that say which messages a job reads: of stores or over the network, of which topics and times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hatwisted.cli.optiongroup import option_group
from hatwisted.cli.optionvalues import Instant, StorePath
from hatwisted.cli.pipeline import checks
from hatwisted.cli.pipeline.account import account_options, check_encrypted, connection_values

selection_options = option_group(
    click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated."),
    click.option("--since", type=Instant(), help="Only what was stored at or after this time (UTC)."),
    click.option("--until", type=Instant(), help="Only what was stored before this time (UTC)."),
)
"""--topic, --since, --until."""


source_options = option_group(
    click.option(
        "-n",
        "--namesrv",
        metavar="HOST:PORT[;...]",
        help="Read from this cluster instead of from STOREs.",
    ),
    click.option(
        "--pattern",
        "--topics",
        "pattern",
        metavar="REGEX",
        help="With -n: the topics whose whole name matches.",
    ),
    click.option(
        "--option",
        "source",
        multiple=True,
        metavar="KEY=VALUE",
        callback=connection_values,
        help="An option of the source; docs/pipeline/topics.md and files.md list them (tls, mode, ...).",
    ),
    account_options,
)
"""--namesrv, --pattern, --option, --credentials, --tls...: messages over the network instead of from stores."""


def read_from(
    stores: tuple[str, ...], topics: tuple[str, ...], options: dict[str, Any], *, whole: bool = False
) -> Any:
    """The stores, or the topics of a cluster, as the jobs take them.

    - stores: folders
    - topics: of the cluster
    - options: those of `source_options`
    - whole: of stores all topics are read
    """
    from hatwisted.pipeline.jobs.land import landingsources

    if bool(stores) == (options["namesrv"] is not None):
        raise click.UsageError("give either STOREs, or -n with --topic or --pattern")
    if stores and options["pattern"] is not None:
        raise click.UsageError("--pattern goes with -n: a STORE's messages are all of its topics'")
    if stores and topics and whole:
        raise click.UsageError("--topic goes with -n: of STOREs all topics land; export takes single ones")
    check_encrypted(options["source"])
    checks.check_options(options["source"], cluster=not stores)
    if stores:
        return landingsources.Stores(list(stores), options["source"])
    if not topics and options["pattern"] is None:
        raise click.UsageError("which topics? Give --topic (may be repeated) or --pattern")
    return landingsources.Cluster(options["namesrv"], topics, options["pattern"], options["source"])


def selection(options: dict[str, Any]) -> Any:
    """Which messages, as the jobs take it; of a pattern's topics the cluster has been told.

    options: those of `selection_options`, and maybe of `source_options`
    """
    from hatwisted.pipeline.jobs.messageselection import Selection

    topics = () if options.get("pattern") else options["topics"]
    return Selection(topics, options["since"], options["until"])


def stores_argument(least: int, metavar: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """STORE...: folders."""
    return click.argument("stores", nargs=-1, required=least > 0, type=StorePath(), metavar=metavar)
