"""A real pair, scraped by a real Prometheus with the rules that are shipped: what goes wrong is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testbed.brokergroup import QUICK_SYNC, SMALL_STORE, BrokerGroup
from testbed.processes import free_port, wait_until
from tests.support.certificate import authority, server_certificate
from tests.support.clusterclient import UPDATE_CONSUMER_OFFSET
from tests.support.figures import Figures
from tests.support.pages import blocks, put_in, run_block
from tests.support.prometheus import RULES, SECONDS, asked, firing, needs_prometheus, prometheus, read

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "conf" / "monitoring" / "dashboard.json"
pytestmark = [needs_prometheus]


class Watched(BrokerGroup):
    """A pair with ports of figures."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.ports = [free_port(), free_port()]
        settings = {**SMALL_STORE, **QUICK_SYNC, "slaveTimeout": 1000, "metricsPort": self.ports[0], **more}
        super().__init__(folder, settings=settings, slave_settings={**more, "metricsPort": self.ports[1]})

    def figures(self, which: int) -> Figures:
        return Figures(read(self.ports[which], "/metrics")[1])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Watched]:
    with Watched(tmp_path) as pair:
        pair.start()
        yield pair


def instances(port: int) -> list[str]:
    """What Grafana offers as brokers: the dashboard's own variable, asked as Grafana does."""
    (query,) = (each["query"] for each in variables() if each["name"] == "instance")
    figure, label = query.removeprefix("label_values(").removesuffix(")").split(", ")
    return asked(port, f"label/{label}/values?match[]={figure}") or []


def variables() -> list[dict[str, Any]]:
    """Of the dashboard."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["templating"]["list"]
    return found


def empty_panels(port: int, brokers: list[str]) -> list[tuple[str, str]]:
    """Titles and expressions of the dashboard for which Prometheus knows nothing at the moment.

    - port: of Prometheus
    - brokers: those that are looked at
    """
    empty = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$instance", "|".join(brokers))
            assert "$" not in expression, expression
            data = asked(port, f"query?{urllib.parse.urlencode({'query': expression})}")
            if not data or not data["result"]:
                empty.append((panel["title"], expression))
    return empty


def fill_panels(pair: Watched, port: int) -> None:
    """What every panel needs: sends, a consumer that has got so far, a link of the slave that has ended."""
    brokers = [f"127.0.0.1:{each}" for each in pair.ports]
    wait_until(lambda: sorted(instances(port)) == sorted(brokers), SECONDS, "both are offered")
    lacking: list[tuple[str, str]] = []
    pair.master.stop()
    pair.master.start()

    def filled() -> bool:
        with pair.master_client() as client:
            client.send("T", b"a message")
            client.pull("T", 0, 0)
            progress = {"consumerGroup": "billing", "topic": "T", "queueId": "0", "commitOffset": "1"}
            client.call(UPDATE_CONSUMER_OFFSET, progress).expect(0)
        lacking[:] = empty_panels(port, brokers)
        return not lacking

    with suppress(TimeoutError):
        wait_until(filled, SECONDS, "every panel shows something")
    assert lacking == []


def test_promtool_finds_no_fault_with_rules_and_figures(pair: Watched) -> None:
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True, capture_output=True)
    for port in pair.ports:
        text = read(port, "/metrics")[1]
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_a_real_prometheus_tells_that_a_slave_was_killed_and_fills_the_dashboard(
    pair: Watched, tmp_path: Path
) -> None:
    ready = [(200, "ok\n"), (200, "ok\n")]
    wait_until(lambda: [read(port, "/readyz") for port in pair.ports] == ready, SECONDS, "both are ready")
    with prometheus(tmp_path / "prometheus", pair.ports) as port:
        # A put that waited for the slave's first report is no longer new.
        fine = {"HatwistedPutsFail", "HatwistedDiskFilling"}  # the disk is the machine's affair
        wait_until(lambda: not firing(port) - fine, SECONDS, "all is well")
        pair.slave.kill()
        expected = {"HatwistedDown", "HatwistedNoSlave", "HatwistedPutsFail"}

        def told() -> bool:
            with pair.master_client() as client:
                client.send("T", b"x")
            return expected <= firing(port)

        wait_until(told, SECONDS, f"{expected} fire")
        pair.slave.start()
        gone = {"HatwistedDown", "HatwistedNoSlave"}
        wait_until(lambda: not gone & firing(port), SECONDS, "the slave is back")
        fill_panels(pair, port)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl isn't installed")
def test_the_page_s_commands_show_figures_and_health(pair: Watched) -> None:
    (block,) = blocks(ROOT / "docs" / "metrics.md")
    done = run_block(put_in(block.code, {"5557": pair.ports[0]}), pair.folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok\n") and "\nhatwisted_ready" in done.stdout


def test_a_real_prometheus_scrapes_over_tls(tmp_path: Path) -> None:
    """Whom it couldn't trust it wouldn't scrape: it knows the authority, and the address that is asked for."""
    authority().write(tmp_path, "authority")
    server_certificate().write(tmp_path, "server")
    settings = {
        "tls.server.certPath": str(tmp_path / "server.pem"),
        "tls.server.keyPath": str(tmp_path / "server.key"),
        "metricsTlsMode": "enforcing",
    }
    with Watched(tmp_path / "pair", **settings) as pair:
        pair.start()
        with prometheus(tmp_path / "prometheus", pair.ports, authority=tmp_path / "authority.pem") as port:
            up = asked(port, "query?query=hatwisted_up")["result"]
            assert [each["value"][1] for each in up] == ["1", "1"]
        with pytest.raises(OSError):
            read(pair.ports[0], "/metrics")  # in plain text


def test_figures_are_those_of_the_brokers_own_answers(pair: Watched) -> None:
    end = pair.wait_caught_up()
    master, slave = pair.figures(0), pair.figures(1)
    assert master("hatwisted_log_end_offset") == slave("hatwisted_log_end_offset") == end
    with pair.master_client() as client:
        info = client.runtime_info()
    assert master("rocketmq_messages_in_total") == float(info["putMessageTimesTotal"])
    assert master("hatwisted_ha_slaves") == 1
    # The slave's last report may be on its way.
    wait_until(lambda: pair.figures(0)("hatwisted_ha_link_lag_bytes") == 0, SECONDS, "all is acknowledged")
    assert master("hatwisted_metrics_longest_step_seconds") > 0


def test_a_broker_that_stands_still_is_told_by_its_slave(pair: Watched) -> None:
    pair.wait_caught_up()
    pair.master.kill()

    def unready() -> bool:
        status, text = read(pair.ports[1], "/readyz")
        return status == 503 and "can't connect to the master's HA port" in text

    wait_until(unready, SECONDS, "the slave says that its master is gone")
    assert read(pair.ports[1], "/healthz") == (200, "ok\n")
    ends = pair.figures(1).labels("hatwisted_ha_slave_link_ends_total")
    assert {"reason": "closed by the master or the network"} in ends
