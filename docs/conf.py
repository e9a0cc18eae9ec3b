"""Sphinx's configuration. `make docs` builds these pages, and the API from the docstrings, into build/docs."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
CHECKOUT = DOCS.parent
sys.path.insert(0, str(CHECKOUT))

import hatwisted  # noqa: E402
from tools import sitereference  # noqa: E402

project = "hatwisted"
author = "The hatwisted authors"
copyright = author
version = release = hatwisted.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"hatwisted {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
# A page of its own, which `make soak` writes.
html_extra_path = ["simulation.html"]

# `name` in a docstring is code, as in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}

# Pages that lie outside docs/, by the page that shows them.
FROM_CHECKOUT = {"readme": "README.md", "changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
PAGES = {CHECKOUT / name: DOCS / f"{page}.md" for page, name in FROM_CHECKOUT.items()}
LINK = re.compile(r"\[([^\[\]]+)\]\(([^()#\s:]+)(#[^()\s]*)?\)")

FILE_NAME = re.compile(r"[\w/-]+\.md")

ARGUMENT = re.compile(r"(\w+(?:, \w+)*): (.+)")


def read_source(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the checkout's pages before what docs/ has under their name, and lead all links into the site."""
    folder = (DOCS / page).parent
    source[0] = _with_links(source[0], folder, folder)
    if name := FROM_CHECKOUT.get(page):
        app.env.note_dependency(CHECKOUT / name)
        shown = (CHECKOUT / name).read_text(encoding="utf-8")
        source[0] = _with_links(shown, CHECKOUT, folder) + "\n" + source[0]
    if page in MADE:
        source[0] += "\n" + MADE[page]()


def _with_links(text: str, base: Path, folder: Path) -> str:
    """Links relative to `base` become links relative to `folder`, those to files that are no part of the site
    plain text. What isn't there stays as it is, for Sphinx to complain about."""

    def led(match: re.Match[str]) -> str:
        label, link, anchor = match[1], match[2], match[3] or ""
        target = (base / link).resolve()
        target = PAGES.get(target, target)
        if target.exists() and not target.is_relative_to(DOCS):
            return label
        # A reader of the sources wants to see a file's name; the site fills in the title of what it leads to.
        shown = "" if FILE_NAME.fullmatch(label) else label
        return f"[{shown}]({os.path.relpath(target, folder)}{anchor})"

    return LINK.sub(led, text)


def _rooms() -> str:
    """Every room, what it says about itself, and each of its modules with the first paragraph of its docstring."""
    package = CHECKOUT / "hatwisted"
    sections = []
    for room in sorted(path.parent for path in package.glob("*/__init__.py")):
        modules = "\n".join(
            f"`{_module_name(path)}`\n: {_docstring(path).partition(chr(10) * 2)[0]}\n"
            for path in sorted(room.rglob("*.py"))
            if path.parent != room or path.name != "__init__.py"
        )
        sections.append(f"## hatwisted.{room.name}\n\n{_docstring(room / '__init__.py')}\n\n{modules}")
    return "\n\n".join(sections)


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def read_docstring(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Paragraphs that list arguments (`name: meaning`, continued by an indent) become definition lists."""
    paragraphs = [paragraph.split("\n") for paragraph in "\n".join(lines).strip().split("\n\n")]
    shown = ["\n".join(_as_definitions(paragraph)) for paragraph in paragraphs]
    lines[:] = [*"\n\n".join(shown).split("\n"), ""]


def _as_definitions(paragraph: list[str]) -> list[str]:
    found = [ARGUMENT.match(line) for line in paragraph]
    if not found[0] or not all(
        match or line[:4].isspace() for match, line in zip(found, paragraph, strict=True)
    ):
        return paragraph
    pairs = zip(found, paragraph, strict=True)
    return [f"{match[1]}\n    {match[2]}" if match else f"    {line.strip()}" for match, line in pairs]


MADE = {
    "api/rooms": _rooms,
    "configuration": sitereference.configuration,
    "commands": sitereference.commands,
}
"""Pages whose larger part is made here."""


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", read_docstring)
