"""What is shipped for Prometheus and Grafana, and the page about it, name figures that brokers show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.assembly.broker import build_broker
from hatwisted.assembly.monitoring import monitored
from hatwisted.assembly.nameserver import build_name_server
from hatwisted.assembly.namesrvmonitoring import monitored_name_server
from hatwisted.config.schema import BrokerRole, NamesrvConfig
from hatwisted.wire.codes import RequestCode
from tests.support.figures import Figures, page
from tests.support.memorynode import NAME_SERVER, MemoryNodes

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "conf" / "monitoring"
NAME = re.compile(r"\b(?:hatwisted|rocketmq|process)_[a-z0-9_]+\b")
SUFFIXES = re.compile(r"_(?:bucket|count|sum)$")
SHOWN_SOMETIMES = {
    "hatwisted_certificate_expiry_timestamp_seconds",  # with certificates
    "rocketmq_group_retrydiff",  # with retries
    "rocketmq_group_dlqdiff",  # with dead letters
}


class Row(NamedTuple):
    """What docs/metrics.md has of a figure."""

    is_histogram: bool
    labels: frozenset[str]
    words: str


def rows_of(figures: Figures) -> dict[str, Row]:
    """By name, as a server shows them."""
    found = {}
    for family in figures.families.values():
        for sample in family.samples:
            labels = frozenset(sample.labels) - {"le"}
            found[SUFFIXES.sub("", sample.name)] = Row(
                family.type == "histogram", labels, family.documentation
            )
    return found


def rows_on_page(text: str) -> dict[str, Row]:
    """By name, as the page has them."""
    found = re.findall(r"^\| `(\w+)`( \(histogram\))? \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    return {
        name: Row(bool(kind), frozenset(re.findall(r"`(\w+)`", labels)), words)
        for name, kind, labels, words in found
        if NAME.fullmatch(name)
    }


class FiredTests(SynchronousTestCase):
    def test_every_alert_is_fired_by_something_that_fails(self) -> None:
        groups = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
        alerts = {rule["alert"] for group in groups for rule in group["rules"]}
        self.assertGreater(len(alerts), 10)
        tests = "".join(path.read_text() for path in (ROOT / "tests/system/metrics").glob("test_*.py"))
        self.assertEqual(alerts - set(re.findall(r'"(Hatwisted\w+)"', tests)), set())


class ShippedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.shown = self.of_a_pair()

    def of_a_pair(self) -> set[str]:
        """Names of all figures that a master and a slave with a consumer show, and their name server."""
        nodes = MemoryNodes(self)
        nodes.folder.mkdir(parents=True)
        names = NAME_SERVER.rpartition(":")[0]
        settings = NamesrvConfig(
            kv_config_path=str(nodes.folder / "kv.json"), metrics_port=5557, metrics_address=names
        )
        parts = nodes.parts(names)
        self.start(nodes, monitored_name_server(build_name_server(settings, parts), parts))
        hosts = {"10.0.0.1": BrokerRole.SYNC_MASTER, "10.0.0.2": BrokerRole.SLAVE}
        for number, (host, role) in enumerate(hosts.items()):
            parts = nodes.parts(host)
            more: dict[str, Any] = {"broker_role": role, "broker_id": number, "metrics_port": 5557}
            config = nodes.config(host, namesrv_addr=NAME_SERVER, metrics_address=host, **more)
            self.start(nodes, monitored(build_broker(config, parts), parts))
        nodes.pass_time(12)
        self.assertEqual(nodes.send("10.0.0.1:10911"), 0)
        commit = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 0}
        nodes.ask("10.0.0.1:10911", RequestCode.UPDATE_CONSUMER_OFFSET, **commit)
        nodes.pass_time(6)
        shown: set[str] = set()
        self.rows: dict[str, Row] = {}
        for host in (*hosts, names):
            figures = Figures(page(nodes, f"{host}:5557", "/metrics")[1])
            self.rows |= rows_of(figures)
            shown |= {SUFFIXES.sub("", sample.name) for sample in figures.samples}
        return shown | SHOWN_SOMETIMES | {"hatwisted_ha_slave_link_ends_total"}

    def start(self, nodes: MemoryNodes, service: Any) -> None:
        service.startService()
        self.addCleanup(nodes.stop, service)

    def names_in(self, text: str) -> set[str]:
        return {SUFFIXES.sub("", name) for name in NAME.findall(text)}

    def test_alert_rules_ask_for_figures_that_there_are(self) -> None:
        (group,) = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
        names = [self.names_in(rule["expr"]) for rule in group["rules"]]
        self.assertGreater(len(names), 15)
        self.assertEqual(set().union(*names) - self.shown, set())

    def test_every_panel_of_the_dashboard_shows_figures_that_there_are(self) -> None:
        panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
        graphs = [panel for panel in panels if panel["type"] != "row"]
        self.assertGreater(len(graphs), 15)
        for panel in graphs:
            for target in panel["targets"]:
                names = self.names_in(target["expr"])
                self.assertTrue(names and names <= self.shown, (panel["title"], names - self.shown))

    def test_the_page_names_each_figure(self) -> None:
        rows = re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
        named = {name for name in rows if NAME.fullmatch(name)}
        self.assertEqual(self.shown - named, set(), "not in docs/metrics.md")
        self.assertEqual(named - self.shown, set(), "only in docs/metrics.md")

    def test_the_page_says_of_each_what_a_scrape_says(self) -> None:
        page = rows_on_page((ROOT / "docs" / "metrics.md").read_text())
        told = {name: row for name, row in self.rows.items() if name not in SHOWN_SOMETIMES}
        labelled = {"cluster", "node_type", "node_id"}
        self.assertGreater(len(told), 80)
        for name, row in told.items():
            self.assertEqual(page[name], row._replace(labels=row.labels - labelled), name)

    def test_the_example_of_prometheus_loads_the_rules(self) -> None:
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        self.assertEqual(config["rule_files"], ["alerts.yml"])
        (job,) = config["scrape_configs"]
        self.assertEqual(job["job_name"], "hatwisted")
