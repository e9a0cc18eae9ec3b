"""The page of one seed, in a real browser: scrubbed by slider, keys and pointer, it shows what was recorded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hatwisted.sim.faultplan import Fault
from hatwisted.sim.recording import Recording
from hatwisted.sim.setup import ADDRESSES, MEMBERS, draw_setup
from hatwisted.sim.simulationpage import page, watch
from tests.support.browser import Chromium, find_chromium

BINARY = find_chromium()
pytestmark = pytest.mark.skipif(
    BINARY is None, reason="needs a Chromium (Debian: apt install chromium) to show the page"
)

FAULTS = (
    Fault(at=2.0, kind="cut", host="a", other="b", lasts=2.0),
    Fault(at=5.0, kind="pause", host="b", lasts=3.0),
    Fault(at=9.0, kind="power", host="a", lasts=2.0, amount=0.5),
    Fault(at=14.0, kind="promote", lasts=1.0),
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recording]:
    """A page, and the recording that it is of."""
    setup = msgspec.structs.replace(draw_setup(22), seconds=20.0, consumers=True, faults=FAULTS)
    outcome, recording = watch(setup)
    path = tmp_path_factory.mktemp("page") / "simulation.html"
    path.write_text(page(setup, outcome, recording), encoding="utf-8")
    return path, recording


@pytest.fixture
def browser(shown: tuple[Path, Recording]) -> Iterator[Chromium]:
    """It shows the page; its console must stay empty."""
    assert BINARY is not None
    with Chromium(BINARY) as browser:
        browser.resize(1000, 1000)
        browser.open(shown[0])
        yield browser
        assert browser.complaints == []


def clock(browser: Chromium) -> float:
    text: str = browser.ask("document.getElementById('clock').textContent")
    return float(text.removesuffix(" s"))


def figures(browser: Chromium) -> dict[str, str]:
    """All that the page says of the brokers' logs."""
    told: dict[str, str] = browser.ask(
        "Object.fromEntries([...document.querySelectorAll('[data-figure]')]"
        ".map(e => [e.dataset.figure, e.textContent]))"
    )
    return told


def recorded(recording: Recording, at: float) -> dict[str, str]:
    """The same from the recording."""
    keys = ("start", "end", "flushed", "acknowledged", "reported")
    found: dict[str, str] = {f"{name}.{key}": "–" for name in "ab" for key in keys}
    for moment in recording.moments:
        for name in "ab" if moment.at <= at else "":
            for key, value in moment.hosts.get(name, {}).items():
                if key in keys:
                    found[f"{name}.{key}"] = "–" if value is None else str(value)
    return found


def test_the_figures_at_any_time_are_those_of_the_run(
    browser: Chromium, shown: tuple[Path, Recording]
) -> None:
    recording = shown[1]
    last = recording.moments[-1].at
    seen = set()
    for part in (0.0, 0.1, 0.25, 0.4, 0.6, 0.9, 1.0):
        at = round(last * part * 4) / 4
        browser.ask(
            f"(() => {{ const s = document.getElementById('time'); s.value = {at};"
            " s.dispatchEvent(new Event('input')); })()"
        )
        assert clock(browser) == at
        assert figures(browser) == recorded(recording, at), at
        seen.add(tuple(figures(browser).items()))
    assert len(seen) > 4, "the same figures all the time"
    answers = browser.ask(
        "Object.fromEntries([...document.querySelectorAll('[data-answer]')]"
        ".map(e => [e.dataset.answer, Number(e.textContent)]))"
    )
    assert answers == {code: count for moment in recording.moments for code, count in moment.answers.items()}


def test_every_machine_has_its_place(browser: Chromium, shown: tuple[Path, Recording]) -> None:
    browser.press("End")
    hosts = browser.ask("[...document.querySelectorAll('.host')].map(e => e.dataset.host)")
    assert set(hosts) == set(ADDRESSES)
    told = browser.ask(
        "Object.fromEntries([...document.querySelectorAll('.host')]"
        ".map(e => [e.dataset.host, e.querySelector('.dim').textContent]))"
    )
    for member in MEMBERS:
        last = [
            moment.hosts[member]["given"]
            for moment in shown[1].moments
            if "given" in moment.hosts.get(member, {})
        ]
        assert told[member] == f"group given {last[-1]}"
        assert last[-1]
    places = browser.ask(
        "[...document.querySelectorAll('.host')].map(e => e.getBoundingClientRect())"
        ".map(b => [b.left, b.right, b.top, b.bottom])"
    )
    for one, other in itertools.combinations(places, 2):
        apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
        assert apart, f"{one} lies over {other}"


def test_keys_and_pointer_scrub(browser: Chromium, shown: tuple[Path, Recording]) -> None:
    browser.press("ArrowRight")
    assert clock(browser) == 0.25
    browser.press("ArrowRight", shift=True)
    assert clock(browser) == 5.25
    browser.press("ArrowLeft")
    assert clock(browser) == 5.0
    browser.press(".")
    first_event = clock(browser)
    assert first_event > 6, "the first fault comes after the group is whole"
    browser.press(",")
    assert clock(browser) == max(event.at for event in shown[1].events if event.at < first_event)
    browser.press("End")
    end = clock(browser)
    assert end > 30
    browser.press("Home")
    assert clock(browser) == 0
    box = browser.ask("(() => { const b = document.getElementById('timeline').getBoundingClientRect();"
                      " return [b.left, b.top, b.width]; })()")  # fmt: skip
    browser.click(box[0] + box[2] * 0.5, box[1] + 20)
    assert end * 0.3 < clock(browser) < end * 0.6


def test_it_plays_and_stops(browser: Chromium) -> None:
    browser.press(" ")
    moved = "new Promise(r => { const w = () => shown > 0.5 ? r(true) : requestAnimationFrame(w); w(); })"
    assert browser.ask(moved)
    browser.press(" ")
    stopped = clock(browser)
    assert browser.ask("new Promise(r => setTimeout(() => r(playing), 100))") == 0
    assert clock(browser) == stopped


def test_faults_and_hosts_that_are_down_are_seen(browser: Chromium, shown: tuple[Path, Recording]) -> None:
    for fault in shown[1].faults[:4]:
        browser.ask(f"show({(fault.at + fault.ends) / 2})")
        lit = browser.ask("document.querySelectorAll('.fault:not(.past)').length")
        assert lit >= 1, fault
    down = next(m.at for m in shown[1].moments if m.hosts.get("a", {}).get("state") == "off")
    browser.ask(f"show({down})")
    assert browser.ask("document.querySelector('[data-host=a]').classList.contains('gone')")
    browser.ask("show(10)")
    assert not browser.ask("document.querySelector('[data-host=a]').classList.contains('gone')")


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_can_be_read_in_the_dark(
    browser: Chromium, shown: tuple[Path, Recording], dark: bool
) -> None:
    if dark:
        browser.darken()
    browser.resize(390, 800)
    browser.open(shown[0])
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    paper, ink = browser.ask(
        "['backgroundColor', 'color'].map(key => getComputedStyle(document.body)[key].match(/\\d+/g)"
        ".reduce((sum, part) => sum + Number(part), 0))"
    )
    assert (ink - paper if dark else paper - ink) > 400, "too little contrast"
    overlap = browser.ask(
        "[...document.querySelectorAll('.host')].some(host => {"
        " const [name, state] = ['.name', '.state'].map(c => host.querySelector(c).getBoundingClientRect());"
        " return state.width > 0 && name.right > state.left; })"
    )
    assert not overlap
