"""`hatwisted conf`: samples of a configuration, a check of one, and what a key means."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import click

import hatwisted
from hatwisted.cli.errors import EXIT_OK, EXIT_PROBLEMS, CannotRun
from hatwisted.cli.output import folded, json_option, show
from hatwisted.config.changing import Change
from hatwisted.config.errors import ConfigError
from hatwisted.config.host import Host
from hatwisted.config.keydocs import KeyDoc, all_keys, key_docs, nearest, without_effect
from hatwisted.config.load import C, Loaded, load_broker_config, load_namesrv_config, read_source
from hatwisted.config.protection import missing_protection
from hatwisted.config.roles import as_master, as_slave
from hatwisted.config.schema import BrokerRole
from hatwisted.config.values import Hidden
from hatwisted.wire.printable import printable

ENDINGS = (".conf", ".properties")
CHANGES = {
    Change.AT_ONCE: "at once, without a restart",
    Change.RESTART: "from the next start on",
    Change.FILE: "from the next start on, and by an edit of the file alone",
}


@click.group()
def conf() -> None:
    """Samples of a configuration, checks of one, and what a key means."""


def _samples() -> dict[str, Path]:
    """By name: those of the environment, or of the checkout that this runs from."""
    checkout = Path(hatwisted.__file__).parents[1] / "conf"
    folder = checkout if checkout.is_dir() else Path(sysconfig.get_path("data"), "share", "hatwisted", "conf")
    found = (path for path in sorted(folder.rglob("*")) if path.suffix in ENDINGS)
    return {str(path.relative_to(folder).with_suffix("")): path for path in found}


@conf.command()
@click.argument("name", required=False)
@json_option
def sample(name: str | None, as_json: bool) -> None:
    """Print the sample NAME; without a name, list them.

    Exit codes: 0 done; 2 usage error, or no such sample.
    """
    samples = _samples()
    if not samples:
        raise CannotRun("no samples here: they are installed into share/hatwisted/conf of the environment")
    if name is None:
        about = {each: _first_comment(path) for each, path in samples.items()}
        if as_json:
            show(True, [{"name": each, "about": line} for each, line in about.items()], (), ())
            return
        for each, line in about.items():
            click.echo(folded(line, 26, f"{each:<24}  ").rstrip())
        return
    found = samples.get(name) or samples.get(os.path.splitext(name)[0])
    if found is None:
        raise CannotRun(f"no sample {name}; there are: {', '.join(samples)}")
    text = found.read_text()
    if as_json:
        show(True, {"name": name, "text": text}, (), ())
    else:
        click.echo(text, nl=False)


def _first_comment(path: Path) -> str:
    line = path.read_text().partition("\n")[0]
    return line.removeprefix("#").strip() if line.startswith("#") else ""


@conf.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--namesrv", is_flag=True, help="It's a name server's, not a broker's.")
@json_option
def check(file: str, namesrv: bool, as_json: bool) -> None:
    """Say what is wrong with FILE, before a server reads it.

    Exit codes: 0 nothing; 1 warnings, or a server wouldn't start with it; 2 usage error.
    """
    error, warnings = None, []
    try:
        warnings = _warnings(file, namesrv)
    except ConfigError as found:
        error = str(found)
    said = [("error", error)] if error else [("warning", each) for each in warnings]
    value = {"file": file, "error": error, "warnings": warnings}
    if as_json:
        show(True, value, (), ())
    else:
        for weight, text in said:
            click.echo(folded(printable(str(text)), 9, f"{weight}: "))
        if not said:
            click.echo(f"{file}: no problems found")
    sys.exit(EXIT_PROBLEMS if said else EXIT_OK)


def _warnings(file: str, namesrv: bool) -> list[str]:
    # Neither name nor address of the machine matters here.
    host = Host("this-host", "127.0.0.1", str(Path.home()))
    if namesrv:
        return _would_start(load_namesrv_config(file, host=host))
    loaded = load_broker_config(file, host=host, environ=os.environ)
    fits = as_slave if loaded.config.broker_role is BrokerRole.SLAVE else as_master
    return _would_start(fits(loaded))


def _would_start(loaded: Loaded[C]) -> list[str]:
    """What it would be warned of; raises ConfigError if it asks for protection that isn't given."""
    for line in missing_protection(loaded):
        raise ConfigError(line)
    return loaded.warnings


@conf.command(short_help="Say what a key means, its default, and what it can be.")
@click.argument("key", required=False)
@click.option(
    "--conf", "file", type=click.Path(dir_okay=False), help="Say what this file sets it to, as well."
)
@json_option
def explain(key: str | None, file: str | None, as_json: bool) -> None:
    """Say what KEY means, its default, and what it can be; without a key, list all of a broker's.

    Exit codes: 0 known; 1 it has no effect, or nobody knows it; 2 usage error.
    """
    if key is None and file is not None:
        raise click.UsageError("--conf needs a KEY: it says what the file sets that to")
    docs = all_keys() if key is None else key_docs(key)
    if as_json:
        told = [each._asdict() | {"change": each.change.value} for each in docs]
        if file is not None and told:
            told[0] |= {"set": _set_to(docs[0], file)[1]}
        show(True, told, (), ())
    elif key is None:
        show(False, None, ("key", "default"), [(each.key, each.default or "-") for each in docs])
    else:
        for each in docs:
            _print_doc(each)
        if docs and file is not None:
            _print_set(docs[0], file)
    if key is not None and not docs:
        _print_unknown(key)
        sys.exit(EXIT_PROBLEMS)


def _print_doc(doc: KeyDoc) -> None:
    click.echo(f"{doc.key}  ({doc.server})")
    click.echo(folded(doc.meaning, 2, "  "))
    click.echo(folded(f"default: {'not set' if doc.default is None else doc.default}", 11, "  "))
    click.echo(folded(f"allowed: {doc.allowed}", 11, "  "))
    click.echo(folded(f"changes: {CHANGES[doc.change]}", 11, "  "))
    click.echo(folded(f"whose:   {doc.origin}", 11, "  "))


def _print_set(doc: KeyDoc, file: str) -> None:
    where, value = _set_to(doc, file)
    click.echo(f"  {where}: " + ("not set" if value is None else printable(value)))


def _set_to(doc: KeyDoc, file: str) -> tuple[str, str | None]:
    """Where in a file a key is set, and what to; None if it isn't."""
    try:
        source = read_source(file, ())
    except ConfigError as error:
        raise CannotRun(str(error)) from None
    entry = source.entries.get(doc.key)
    if entry is None:
        return source.where(doc.key), None
    return source.where(doc.key), repr(Hidden(entry.value)) if doc.secret else entry.value


def _print_unknown(key: str) -> None:
    said = without_effect(key)
    if said is None:
        close = nearest(key)
        said = "no such key" + (f"; did you mean {' or '.join(close)}?" if close else "")
    click.echo(f"{printable(key)}: {said}", err=True)
