"""The report of the golden store: figures as the server's codec has them, a page that holds itself together."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyspark")

from hatwisted.pipeline.errors import NotAStore, PipelineError
from hatwisted.pipeline.jobs.htmlpage import STYLE
from hatwisted.pipeline.jobs.messageselection import Selection
from hatwisted.pipeline.jobs.report import plotsheets
from hatwisted.pipeline.jobs.report.reporting import NothingToReport, ReportOptions, report
from tests.support.browser import Chromium, find_chromium
from tests.support.golden import records
from tests.support.goldenlog import MASTER, SLAVE, instant


@pytest.fixture(scope="module")
def damaged(spark, tmp_path_factory):
    """A report of a log with a damaged record, and its folder."""
    store = tmp_path_factory.mktemp("damaged") / "broker-a"
    shutil.copytree(MASTER, store)
    (log, *_) = sorted((store / "commitlog").iterdir())
    sound = log.read_bytes()
    at = records()[20].physical_offset
    log.write_bytes(sound[: at + 4] + bytes(8) + sound[at + 12 :])
    out = tmp_path_factory.mktemp("report")
    return report([str(store)], str(out), ReportOptions(mode="skip-and-report"), spark=spark), out


@pytest.fixture(scope="module")
def golden(spark, damaged):
    """A report in the place of another."""
    told = []
    _, out = damaged
    result = report(
        [MASTER],
        str(out),
        ReportOptions(slaves=[SLAVE]),
        spark=spark,
        progress=lambda *each: told.append(each),
    )
    return result, out, told


def test_the_figures_are_those_of_the_log(golden):
    result, _, told = golden
    log = records()
    total = result.summary.total
    assert (total.messages, total.bytes) == (len(log), sum(each.total_size for each in log))
    assert (total.first, total.last) == (log[0].store_timestamp, max(each.store_timestamp for each in log))
    late = [each.store_timestamp - each.born_timestamp for each in log]
    known = sorted(each for each in late if each >= 0)
    assert total.early == len(late) - len(known)
    assert total.latency.max == known[-1]
    assert median(known) <= total.latency.p50 <= 1.1 * median(known) + 1
    counts = Counter(each.topic for each in log)
    assert {each.topic: each.messages for each in result.summary.topics} == counts
    queues = Counter((each.topic, each.queue_id) for each in log)
    assert {(each.topic, each.queue_id): each.messages for each in result.summary.queues} == queues
    assert told[-1][0] == told[-1][1] > 100_000


def test_the_slave_is_level(golden):
    (slave,) = golden[0].summary.slaves
    assert (slave.name, slave.behind, slave.messages, slave.milliseconds) == ("slave", 0, 0, 0)


def test_files_lie_next_to_the_page(golden):
    result, out, _ = golden
    assert result.page == str(out / "report.html")
    assert all(Path(path).stat().st_size for path in result.files)
    names = {path.name for path in (out / "plots").iterdir()}
    assert {f"{sheet.name}.{suffix}" for sheet in plotsheets.SHEETS for suffix in ("svg", "png")} == names
    assert (out / "plots" / "throughput.png").read_bytes().startswith(b"\x89PNG")
    with (out / "minutes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["messages"]) for row in rows) == result.summary.total.messages
    first = datetime.fromtimestamp(result.summary.total.first // 60_000 * 60, UTC)
    assert rows[0]["minute"] == first.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert json.loads((out / "report.json").read_text())["total"]["messages"] == result.summary.total.messages
    assert json.dumps(result.as_json())


class _Page(HTMLParser):
    """What a page has and refers to."""

    VOID = frozenset(("meta", "link", "br", "img", "input"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.references += [found[name] for name in ("src", "href", "xlink:href") if name in found]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone(golden):
    text = Path(golden[0].page).read_text()
    page = _Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    for reference in page.references:
        assert reference == "minutes.csv" or reference.startswith("#") and reference[1:] in page.ids, (
            reference
        )
    for used in re.findall(r"url\(#([^)]+)\)", text):
        assert used in page.ids
    # No colour that a dark page couldn't change.
    svgs = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(svgs) == len(plotsheets.SHEETS)
    for svg in svgs:
        ElementTree.fromstring(svg)
        assert "mathdefault" not in svg
        assert not re.findall(r"#[0-9a-f]{6}\b", re.sub(r"(url\(|href=\")#[^)\"]+", "", svg))
        assert set(re.findall(r"var\(--([\w-]+)\)", svg)) <= set(re.findall(r"--([\w-]+):", STYLE))


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
def test_every_table_fits_a_page_of_1280_pixels(golden):
    result, _, _ = golden
    binary = find_chromium()
    assert binary is not None
    tables = "[...document.querySelectorAll('.scroll')]"
    widths = f"JSON.stringify({tables}.map(each => [each.scrollWidth, each.clientWidth]))"
    with Chromium(binary) as browser:
        browser.resize(1280, 900)
        browser.open(Path(result.page))
        found = browser.ask(widths)
        labels = browser.ask(
            "[...document.querySelectorAll('.tile span')].map(each => each.textContent).join()"
        )
    shown = json.loads(found) if isinstance(found, str) else found
    assert len(shown) == 3
    assert all(needed <= there for needed, there in shown), shown
    assert "Slave slave" not in labels


def test_a_selection(spark, tmp_path):
    log = [each for each in records() if each.topic == "TopicA"]
    until = log[len(log) // 2].store_timestamp
    chosen = Selection(("TopicA",), until=instant(until))
    found = report([MASTER], str(tmp_path), ReportOptions(selection=chosen), spark=spark).summary
    assert found.total.messages == sum(each.store_timestamp < until for each in log)
    assert found.topic_count == 1
    with pytest.raises(NothingToReport):
        report([MASTER], str(tmp_path), ReportOptions(selection=Selection(("nowhere",))), spark=spark)


def test_what_isnt_a_store_is_reported_before_spark_reads(spark, tmp_path):
    with pytest.raises(NotAStore):
        report([str(tmp_path)], str(tmp_path / "out"), spark=spark)
    with pytest.raises(PipelineError, match="one broker"):
        report([MASTER, MASTER], str(tmp_path / "out"), spark=spark)
    assert not (tmp_path / "out").exists()


def test_damage_of_an_earlier_report_is_forgotten(damaged, golden):
    assert damaged[0].damages == 1
    assert golden[0].damages == 0
