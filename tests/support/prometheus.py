"""A real Prometheus that asks brokers each second, with the rules that are shipped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.processes import REPOSITORY, free_port, wait_until

SECONDS = 120.0
RULES = REPOSITORY / "conf" / "monitoring" / "alerts.yml"
MISSING = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
needs_prometheus = pytest.mark.skipif(
    bool(MISSING), reason=f"needs {MISSING} (Debian: apt install prometheus)"
)
PATIENCE = re.compile(r"(_seconds > |_latency > )(\d+)$")
"""How long a rule waits until a lag or an age is one, at the end of its expression."""


def read(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def quick_rules(path: Path, quicker: int) -> None:
    """Those that are shipped, with less patience: a test has a minute, an operator's night is longer."""
    content = yaml.safe_load(RULES.read_text())
    for rule in content["groups"][0]["rules"]:
        if "for" in rule:
            rule["for"] = "1s"
        rule["expr"] = PATIENCE.sub(lambda found: f"{found[1]}{int(found[2]) / quicker:g}", rule["expr"])
    path.write_text(yaml.safe_dump(content))


@contextmanager
def prometheus(
    folder: Path, targets: Sequence[int], quicker: int = 1, authority: Path | None = None
) -> Iterator[int]:
    """Running on a port, and all targets have been asked once.

    - folder: made, for its data
    - targets: ports of figures
    - quicker: how many times sooner a lag is one
    - authority: of their certificates, if they speak TLS
    """
    folder.mkdir()
    quick_rules(folder / "alerts.yml", quicker)
    config: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {
                "job_name": "hatwisted",
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in targets]}],
            }
        ],
    }
    if authority is not None:
        tls = {"scheme": "https", "tls_config": {"ca_file": str(authority)}}
        config["scrape_configs"][0] |= tls
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: scraped(port, len(targets)), SECONDS, "all brokers are scraped")
        yield port
    finally:
        process.terminate()
        process.wait(SECONDS)


def asked(port: int, path: str) -> Any:
    try:
        return json.loads(read(port, f"/api/v1/{path}")[1])["data"]
    except (OSError, ValueError):
        return None


def firing(port: int) -> set[str]:
    data = asked(port, "alerts") or {"alerts": []}
    return {alert["labels"]["alertname"] for alert in data["alerts"] if alert["state"] == "firing"}


def scraped(port: int, count: int) -> bool:
    data = asked(port, "targets?state=active") or {"activeTargets": []}
    return [target["health"] for target in data["activeTargets"]] == ["up"] * count
