"""Pages of the site that are made while it is built: every key of the configuration, every command.

They come from where the program itself has them (`hatwisted.config.keydocs`, the commands' own options and help),
so that they can't say anything else than it does.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator

import click

from hatwisted.cli.main import main
from hatwisted.config.changing import Change
from hatwisted.config.keydocs import KeyDoc, all_keys

WIDELY = 8
"""An option that as many commands have, in the same words, is described once, above them."""
CHANGES = {
    Change.AT_ONCE: "changes at once",
    Change.RESTART: "after a restart",
    Change.FILE: "after a restart, by its file alone",
}
SERVERS = {"broker": "A broker's keys", "name server": "A name server's keys"}


def configuration() -> str:
    """A table of keys for each section of each server's schema, in Markdown."""
    parts = []
    for server, title in SERVERS.items():
        parts.append(f"## {title}\n")
        sections: dict[str, list[KeyDoc]] = {}
        for doc in _ordered(all_keys(server)):
            sections.setdefault(doc.section, []).append(doc)
        for section, docs in sections.items():
            name, _, note = section.partition(": ")
            parts.append(f"### {name[0].upper()}{name[1:]}\n")
            if note:
                parts.append(f"{note[0].upper()}{note[1:]}.\n")
            parts.append(_key_table(docs, "" if server == "broker" else "namesrv-"))
    return "\n".join(parts)


def _ordered(docs: list[KeyDoc]) -> list[KeyDoc]:
    """What a server is comes first; whom it lets in, which the schema inherits, last."""
    inherited = [doc for doc in docs if _is_about_access(doc)]
    return [doc for doc in docs if not _is_about_access(doc)] + inherited


def _is_about_access(doc: KeyDoc) -> bool:
    return doc.section in ("who may connect", "limits of one client", "accounts") or doc.section.startswith(
        "TLS"
    )


def _key_table(docs: list[KeyDoc], prefix: str) -> str:
    """Two columns alone: a third wouldn't fit a phone. prefix: of the names by which keys are linked to."""
    rows = ["| key |  |", "|---|---|"]
    for doc in docs:
        default = "no default" if doc.default is None else doc.default
        if not default.startswith(("no ", "the ")):
            default = f"`{default}`"
        facts = " · ".join((f"**{default}**", _allowed(doc), CHANGES[doc.change], doc.origin))
        name = prefix + doc.key
        key = f'<a class="key" id="{name}" href="#{name}">`{doc.key}`</a>'
        rows.append(f"| {key} | {_cell(doc.meaning)}<br>{_cell(facts)} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _allowed(doc: KeyDoc) -> str:
    """Shorter than in an error: that a key may be left empty is seen from its default."""
    text = (
        doc.allowed.removesuffix(", or nothing").removeprefix("a whole number from ").removeprefix("one of ")
    )
    text = text.removesuffix(" (several, separated by commas, are not supported)")
    return text.replace("-9223372036854775808", "-2^63").replace(" to ", " – ", 1).replace("*", "\\*")


def commands() -> str:
    """Each command with its usage, its words and its options, in Markdown."""
    found = list(_commands(main, click.Context(main, info_name="hatwisted")))
    counts = Counter(_option(each) for command, _ in found for each in _options(command))
    shared = {option for option, count in counts.items() if count >= WIDELY}
    parts = ["## Options that most commands have\n", _option_table(sorted(shared))]
    for command, context in found:
        parts.append(f"## {context.command_path}\n")
        parts.append(f"```text\n{_usage(command, context)}\n```\n")
        parts.append(_words(command) + "\n")
        options = [_option(each) for each in _options(command)]
        if own := [each for each in options if each not in shared]:
            parts.append(_option_table(own))
        if also := [each[0].split(" ")[0].strip("`,") for each in options if each in shared]:
            parts.append("Also: " + ", ".join(f"`{name}`" for name in also) + ".\n")
    return "\n".join(parts)


def _commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    if not isinstance(command, click.Group):
        yield command, context
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            yield from _commands(below, click.Context(below, info_name=name, parent=context))


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def _option(option: click.Option) -> tuple[str, str]:
    """How it's written, and what it does, as `--help` says both."""
    record = option.get_help_record(click.Context(click.Command("x")))
    written, told = record if record is not None else (option.opts[-1], option.help or "")
    return _cell(f"`{written}`"), _cell(told)


def _option_table(options: Iterable[tuple[str, str]]) -> str:
    return (
        "\n".join(["| option |  |", "|---|---|", *(f"| {name} | {told} |" for name, told in options)]) + "\n"
    )


def _usage(command: click.Command, context: click.Context) -> str:
    return f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"


def _words(command: click.Command) -> str:
    """Its help; what it says of exit codes begins a paragraph of its own."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    return text.replace(" Exit code", "\n\nExit code").replace("\nExit code", "\n\nExit code")
