"""The live page of a real pair in a real browser: its figures are the brokers', and a restart is survived."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.brokergroup import QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until
from tests.support.browser import Chromium, find_chromium

BINARY = find_chromium()
pytestmark = [
    pytest.mark.skipif(
        BINARY is None, reason="needs a Chromium (Debian: apt install chromium) to show the page"
    ),
]

PAINTED = "performance.getEntriesByName('first-contentful-paint').length"
WAITED_FOR = (
    "performance.getEntriesByType('resource').filter(each => each.renderBlockingStatus !== 'non-blocking')"
    ".map(each => each.name.split('/').pop())"
)
"""What has to come before anything is painted."""
LOADED = (
    "performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))"
    ".filter(each => !each.name.endsWith('/stream')).reduce((sum, each) => sum + each.transferSize, 0)"
)
MOST_BYTES = 200_000


class Shown(BrokerGroup):
    """A pair with live pages."""

    def __init__(self, folder: Path, **of_master: str) -> None:
        self.ports = [free_port(), free_port()]
        settings = {**SMALL_STORE, **QUICK_SYNC, "dashboardPort": self.ports[0], **of_master}
        super().__init__(folder, settings=settings, slave_settings={"dashboardPort": self.ports[1]})

    def address(self, which: int, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.ports[which]}/"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Who ends a server of it starts it again."""
    with Shown(tmp_path_factory.mktemp("pair")) as pair:
        pair.start()
        yield pair


@pytest.fixture
def browser() -> Iterator[Chromium]:
    assert BINARY is not None
    with Chromium(BINARY) as browser:
        browser.resize(1100, 800)
        yield browser


def figure(browser: Chromium, key: str) -> str:
    return str(browser.ask(f"document.querySelector('[data-figure={key}]')?.dataset.value"))


def text_of(browser: Chromium, part: str) -> str:
    return str(browser.ask(f"document.getElementById('{part}').innerText"))


def until(browser: Chromium, condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, 60, f"{what}; the page: {text_of(browser, 'state')}")


def test_figures_move_as_the_brokers_do(pair: Shown, browser: Chromium) -> None:
    browser.visit(pair.address(0))
    with pair.master_client() as client:
        for _ in range(50):
            assert client.send("T", bytes(500)).code == 0
    end = str(pair.wait_caught_up())
    for key in ("log_end", "acked"):
        until(browser, lambda key=key: figure(browser, key) == end, f"{key} is {end}")  # type: ignore[misc]
    assert figure(browser, "lag") == "0"
    browser.visit(pair.address(1))
    until(browser, lambda: figure(browser, "acked") == figure(browser, "log_end") == end, "the slave's too")
    assert "transfer" in text_of(browser, "state")
    assert browser.complaints == []


def test_figures_move_over_tls_too(tmp_path: Path, browser: Chromium) -> None:
    with Shown(tmp_path, dashboardTlsMode="enforcing") as pair:
        pair.start()
        browser.trust_everybody()
        browser.visit(pair.address(0, "https"))
        with pair.master_client() as client:
            for _ in range(50):
                assert client.send("T", bytes(500)).code == 0
        end = str(pair.wait_caught_up())
        for key in ("log_end", "acked"):
            until(browser, lambda key=key: figure(browser, key) == end, f"{key} is {end}")  # type: ignore[misc]
        assert browser.ask("location.protocol") == "https:"


def test_it_is_there_at_once_and_small(pair: Shown, browser: Chromium) -> None:
    browser.visit(pair.address(0))
    wait_until(lambda: browser.ask(PAINTED), 60, "something is painted")
    assert browser.ask(WAITED_FOR) == ["live.css"]
    assert 1000 < float(browser.ask(LOADED)) < MOST_BYTES
    with urllib.request.urlopen(pair.address(0), timeout=60) as answer:
        text = answer.read().decode()
    assert not re.search(r"https?://", text), "the page asks for nothing from elsewhere"


def test_a_restart_of_the_broker_is_survived(pair: Shown, browser: Chromium) -> None:
    browser.visit(pair.address(0))
    until(browser, lambda: "well" in text_of(browser, "state"), "all is well")
    pair.master.kill()
    until(browser, lambda: not browser.ask("document.getElementById('gone').hidden"), "it says so")
    pair.master.start()
    until(browser, lambda: bool(browser.ask("document.getElementById('gone').hidden")), "it is back")
    pair.wait_linked()
    end = str(pair.master_end())
    until(browser, lambda: figure(browser, "log_end") == end, "figures move again")


def test_a_lost_slave_is_told_with_what_to_do(pair: Shown, browser: Chromium) -> None:
    browser.visit(pair.address(0))
    until(browser, lambda: "well" in text_of(browser, "state"), "all is well")
    pair.slave.kill()
    until(browser, lambda: "is a SYNC_MASTER without a slave" in text_of(browser, "state"), "it is told")
    assert "1 problem" in text_of(browser, "state")
    assert "up, 0 slaves linked" in text_of(browser, "group")
    until(browser, lambda: "left at" in text_of(browser, "events"), "the event is there")
    pair.slave.start()
    pair.wait_linked()


def test_by_keyboard_on_a_phone_and_in_the_dark(pair: Shown, browser: Chromium) -> None:
    browser.resize(390, 844)
    browser.visit(pair.address(0))
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    until(browser, lambda: browser.ask("document.querySelectorAll('.scroll').length") == 2, "all is shown")
    wide = (
        "[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth).length"
    )
    assert browser.ask(wide) == 0, "nothing is beside the screen"
    light = browser.ask("getComputedStyle(document.body).backgroundColor")
    browser.darken()
    assert browser.ask("getComputedStyle(document.body).backgroundColor") != light
    pressed = "document.getElementById('pause').getAttribute('aria-pressed')"
    browser.press("p")
    assert browser.ask(pressed) == "true"
    before, heard = text_of(browser, "state"), float(browser.ask("heard.getTime()"))
    # Its parts come each second, shown or not.
    until(browser, lambda: float(browser.ask("heard.getTime()")) > heard + 2000, "parts have come")
    assert text_of(browser, "state") == before
    browser.press("p")
    until(browser, lambda: text_of(browser, "state") != before, "it goes on")
