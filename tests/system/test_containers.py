"""What comes for containers: the image's recipe and health check, and the manifest for Kubernetes.

The image itself is tried where HATWISTED_IMAGE names one that has been built, as docs/containers.md says.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from hatwisted.config.load import load_broker_config
from hatwisted.config.roles import as_master, as_slave
from testbed.processes import REPOSITORY, free_port
from tests.support.loopback import HOST

RECIPE = REPOSITORY / "Containerfile"
MANIFEST = REPOSITORY / "conf" / "kubernetes" / "hatwisted.yaml"
HEALTHY = REPOSITORY / "tools" / "healthy.py"
IMAGE = os.environ.get("HATWISTED_IMAGE")
PODMAN = shlex.split(os.environ.get("HATWISTED_PODMAN", "podman"))
"""With the options that a machine needs, such as `podman --runtime runc`."""
LIMITS = shlex.split(os.environ.get("HATWISTED_PODMAN_RUN", ""))
OLDEST_KUBERNETES = "1.28.0"
"""`make lint` asks the newest that the validator knows."""
SECONDS = 60.0
SMALL = (
    "brokerIP1=127.0.0.1 brokerIP2=127.0.0.1 mappedFileSizeCommitLog=1048576 maxHashSlotNum=1000 "
    "maxIndexNum=4000 namesrvAddr=127.0.0.1:9876"
)


@pytest.fixture(scope="module")
def manifest() -> dict[tuple[str, str], Any]:
    """Objects by kind and name."""
    objects = yaml.safe_load_all(MANIFEST.read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def sets(manifest: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """The one container of each set, by its name."""
    found = [
        each["spec"]["template"]["spec"] for (kind, _), each in manifest.items() if kind == "StatefulSet"
    ]
    return {container["name"]: container for each in found for container in each["containers"]}


def test_its_configurations_are_a_master_s_and_its_slave_s(manifest: dict[Any, Any], tmp_path: Path) -> None:
    configs = {}
    for name, text in manifest["ConfigMap", "hatwisted-broker-a"]["data"].items():
        path = tmp_path / name
        path.write_text(text)
        slave = name == "slave.conf"
        # The slave's number is its pod's.
        loaded = load_broker_config(str(path), ["brokerId=1"] if slave else [], host=HOST)
        loaded = (as_slave if slave else as_master)(loaded)
        assert loaded.warnings == []
        configs[name] = loaded.config
    master, follower = configs["master.conf"], configs["slave.conf"]
    assert master.broker_name == follower.broker_name
    namesrv = manifest["StatefulSet", "hatwisted-namesrv"]
    service = namesrv["spec"]["serviceName"]
    pods = [f"hatwisted-namesrv-{n}.{service}:9876" for n in range(namesrv["spec"]["replicas"])]
    assert master.name_servers == follower.name_servers == pods
    for name, config in (("master", master), ("slave", follower)):
        container = sets(manifest)[name]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert ports["metrics"] == config.metrics_port
        assert (ports["remoting"], ports["ha"]) == (config.listen_port, config.ha_listen_port)
        mounts = {each["mountPath"] for each in container["volumeMounts"]}
        assert str(Path(config.store_path_root_dir).parent) in mounts


def test_probes_ask_pages_that_there_are(manifest: dict[Any, Any]) -> None:
    for name in ("master", "slave"):
        container = sets(manifest)[name]
        asked = {
            probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "readiness", "liveness")
        }
        assert {each["port"] for each in asked.values()} == {"metrics"}
        assert [each["path"] for each in asked.values()] == ["/healthz", "/readyz", "/healthz"]


def test_pods_run_as_the_image_s_user_without_privileges(manifest: dict[Any, Any]) -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", RECIPE.read_text(), re.MULTILINE)
    for (kind, _), each in manifest.items():
        if kind == "StatefulSet":
            spec = each["spec"]["template"]["spec"]
            assert spec["securityContext"]["runAsUser"] == int(user)
            labels = each["spec"]["selector"]["matchLabels"]
            assert labels.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    for container in sets(manifest).values():
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def checked(program: str, *arguments: str) -> None:
    found = Path(sys.executable).with_name(program)
    if not found.exists() and shutil.which(program) is None:
        pytest.skip(f"needs {program} (the extra lint)")
    words = [str(found) if found.exists() else program, *arguments]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_the_recipe_by_its_linter() -> None:
    checked("hadolint", str(RECIPE))


def test_the_manifest_by_the_schemas_of_kubernetes() -> None:
    checked("kubernetes-validate", "--strict", "-k", OLDEST_KUBERNETES, str(MANIFEST))


@pytest.fixture
def page() -> Iterator[HTTPServer]:
    """Answers as a broker's pages do."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 503)
            self.end_headers()
            self.wfile.write(b"ok" if self.path == "/healthz" else b"puts are refused: the disk is full\n")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def health(probe: str) -> tuple[int, str]:
    """Status and what it says."""
    done = subprocess.run(
        [sys.executable, HEALTHY],
        env={**os.environ, "HATWISTED_PROBE": probe},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr.strip()


def test_health_is_what_the_broker_says_of_itself(page: HTTPServer) -> None:
    base = f"http://127.0.0.1:{page.server_port}"
    assert health(f"{base}/healthz") == (0, "")
    assert health(f"{base}/readyz") == (1, f"{base}/readyz: puts are refused: the disk is full")
    assert health(f"127.0.0.1:{page.server_port}") == (0, "")


def test_nobody_there_isn_t_healthy() -> None:
    port = free_port()
    for probe in (f"http://127.0.0.1:{port}/healthz", f"127.0.0.1:{port}"):
        status, said = health(probe)
        assert status == 1 and said.startswith(probe) and "\n" not in said
    assert health("nonsense")[0] == 1


@pytest.mark.skipif(IMAGE is None, reason="HATWISTED_IMAGE names no image to try")
def test_a_master_and_its_slave_in_containers() -> None:
    mark = f"hatwisted-test-{os.getpid()}"
    made: list[str] = []

    def podman(*words: str, given: str | None = None) -> str:
        done = subprocess.run([*PODMAN, *words], input=given, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def run(name: str, network: str, *words: str) -> str:
        container = f"{mark}-{name}"
        options = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--network", network, *LIMITS]
        podman("run", "--detach", "--name", container, *options, *words)
        made.insert(0, container)
        return container

    def until(container: str, probe: str) -> None:
        command = [
            "exec",
            "-e",
            f"HATWISTED_PROBE={probe}",
            container,
            "python3",
            "/opt/hatwisted/healthy.py",
        ]
        deadline = time.monotonic() + SECONDS
        while subprocess.run([*PODMAN, *command], capture_output=True).returncode:
            assert time.monotonic() < deadline, podman("logs", container)
            time.sleep(0.2)

    assert IMAGE is not None
    settings = [word for each in f"{SMALL} brokerName=broker-a".split() for word in ("--set", each)]
    try:
        names = run("namesrv", "none", IMAGE, "hanamesrv")
        beside = f"container:{names}"
        until(names, "127.0.0.1:9876")
        master = run("master", beside, IMAGE, "hamaster", *settings, "--set", "metricsPort=5557")
        until(master, "http://127.0.0.1:5557/healthz")
        slave = run(
            "slave",
            beside,
            IMAGE,
            "haslave",
            *settings,
            "--set",
            "listenPort=10921",
            "--set",
            "metricsPort=5558",
        )
        until(slave, "http://127.0.0.1:5558/readyz")
        podman("exec", "-i", master, "hatwisted", "produce", "Told", given="a message\n")
        podman("stop", "-t", "60", master)
        assert podman("inspect", master, "--format", "{{.State.ExitCode}}").strip() == "0"
        podman("start", master)
        until(master, "http://127.0.0.1:5557/readyz")
        seen = podman("exec", master, "hatwisted", "consume", "Told", "--from", "first", "--count", "1")
        assert seen == "a message\n"
        assert podman("exec", master, "id", "-u").strip() == "10001"
    finally:
        for container in made:
            subprocess.run([*PODMAN, "rm", "--force", "--volumes", container], capture_output=True)
