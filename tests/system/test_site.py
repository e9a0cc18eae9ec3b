"""The site that `make docs` builds, in a real browser and from files alone: search, phones, darkness."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.processes import REPOSITORY, wait_until
from tests.support.browser import Chromium, find_chromium

BINARY = find_chromium()
pytestmark = [
    pytest.mark.skipif(
        BINARY is None, reason="needs a Chromium (Debian: apt install chromium) to show the site"
    ),
    pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="needs the extra docs"),
]
BUILT = REPOSITORY / "build" / "docs"
SOURCES = ("docs/**/*", "hatwisted/**/*.py", "tools/*.py", "*.md")
PHONE = (390, 844)
PATIENCE = 120.0
WITHOUT_API = {"exclude_patterns": "api", "suppress_warnings": "toc.not_readable,myst.xref_missing"}
"""The API takes longer than all other pages together, and `make lint` builds it; links to it lead nowhere here."""
PAGES = ("index", "howto/watch", "configuration", "commands", "metrics", "guarantees")


def is_fresh() -> bool:
    """Has somebody built it since its sources changed, as `make lint` does?"""
    page = BUILT / "index.html"
    newest = max(path.stat().st_mtime for each in SOURCES for path in REPOSITORY.glob(each))
    return page.is_file() and page.stat().st_mtime > newest


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if is_fresh():
        return BUILT
    folder = tmp_path_factory.mktemp("site")
    words = [
        "-q",
        "-W",
        "--keep-going",
        *(f"-D{name}={value}" for name, value in WITHOUT_API.items()),
        "-d",
        str(folder / "trees"),
        str(REPOSITORY / "docs"),
        str(folder / "html"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    assert BINARY is not None
    with Chromium(BINARY) as found:
        yield found


def test_search_works_without_a_server(site: Path) -> None:
    assert BINARY is not None
    # One of its own: from files the search can't read the excerpts that it would show, and complains.
    with Chromium(BINARY) as browser:
        browser.visit((site / "search.html").as_uri() + "?q=haAuditRate")
        results = "document.querySelectorAll('#search-results ul.search li').length"
        wait_until(lambda: browser.ask(results) > 2, PATIENCE, "it finds pages")
        # They come one after the other.
        shown = "document.querySelector('#search-results').innerText"
        wait_until(lambda: "Configuration" in browser.ask(shown), PATIENCE, "it finds the page of the key")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_and_asks_nothing_of_the_network(
    site: Path, browser: Chromium, name: str
) -> None:
    page = site / f"{name}.html"
    browser.resize(*PHONE)
    browser.open(page)
    assert browser.ask("document.documentElement.scrollWidth") <= PHONE[0]
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text())
    assert loaded == []
    assert browser.complaints == []


def test_the_picture_follows_the_readers_theme(site: Path, browser: Chromium) -> None:
    browser.open(site / "index.html")
    ink = "getComputedStyle(document.querySelector('#overview .name')).fill"
    shown = {}
    for theme in ("light", "dark"):
        browser.ask(f"document.body.dataset.theme = '{theme}'")
        shown[theme] = browser.ask(ink)
    assert shown["light"] != shown["dark"]


def test_every_key_and_every_command_has_its_place(site: Path) -> None:
    keys, commands = ((site / f"{name}.html").read_text() for name in ("configuration", "commands"))
    for key in ("brokerRole", "haFirstSync", "tls.server.mode", "orderMessageEnable"):
        assert f">{key}<" in keys
    for command in ("status", "group reset", "pipeline land", "log check"):
        assert f"hatwisted {command}<" in commands
