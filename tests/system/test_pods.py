"""The manifest's pods, as podman runs them: each container with the user, the arguments, the files, the addresses
and the rights that the manifest gives it. What a cluster adds (nodes, claims, its names) has no part in it.

Tried where HATWISTED_IMAGE names an image, as `test_containers` does.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.system.test_containers import IMAGE, LIMITS, MANIFEST, PODMAN

pytestmark = pytest.mark.skipif(IMAGE is None, reason="HATWISTED_IMAGE names no image to try")

SECONDS = 120.0
READY = "http://127.0.0.1:5557/readyz"
NAMES = "hatwisted-namesrv-0.hatwisted-namesrv"
ADDRESSES = {"status.podIP": "address", "metadata.name": "name"}


def podman(*words: str, given: str | None = None, status: int = 0) -> str:
    done = subprocess.run([*PODMAN, *words], input=given, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done.stdout


class Pods:
    """By podman, on a network of their own, with what they keep in volumes."""

    def __init__(self, folder: Path) -> None:
        objects = list(yaml.safe_load_all(MANIFEST.read_text()))
        self._sets = {each["metadata"]["name"]: each for each in objects if each["kind"] == "StatefulSet"}
        self._files = {
            each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "ConfigMap"
        }
        self._folder = folder
        self.mark = f"hatwisted-pods-{os.getpid()}"
        podman("network", "create", "--disable-dns", self.mark)
        (network,) = json.loads(podman("network", "inspect", self.mark))
        self._hosts = ipaddress.ip_network(network["subnets"][0]["subnet"])
        self._named: dict[str, str] = {}
        self.made: list[str] = []
        self.volumes: list[str] = []

    def start(self, set_name: str, number: int, place: int) -> str:
        """The pod of this number of a set, at the network's address number `place`; its container."""
        wanted = self._sets[set_name]["spec"]
        pod, name = wanted["template"]["spec"], f"{set_name}-{number}"
        (container,) = pod["containers"]
        facts = {"address": str(self._hosts[place]), "name": name}
        given = {
            each["name"]: facts[ADDRESSES[each["valueFrom"]["fieldRef"]["fieldPath"]]]
            for each in container.get("env", [])
        }
        words = [*self._rights(pod, container), *self._mounted(pod, container, name), *LIMITS]
        words += ["--network", self.mark, "--ip", facts["address"], "--hostname", name]
        words += [f"--add-host={host}:{address}" for host, address in self._named.items()]
        words += [f"--env={key}={value}" for key, value in given.items()]
        if "command" in container:
            words += ["--entrypoint", json.dumps(container["command"])]
        arguments = container["args"]
        for key, value in given.items():
            arguments = [each.replace(f"$({key})", value) for each in arguments]
        assert IMAGE is not None
        made = f"{self.mark}-{name}"
        podman("run", "--detach", "--no-healthcheck", "--name", made, *words, IMAGE, *arguments)
        self.made.insert(0, made)
        self._named[f"{name}.{wanted['serviceName']}"] = facts["address"]
        return made

    @staticmethod
    def _rights(pod: Any, container: Any) -> list[str]:
        user, own = pod["securityContext"], container["securityContext"]
        assert own == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        words = [
            "--read-only",
            "--read-only-tmpfs=false",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
        ]
        return [*words, f"--user={user['runAsUser']}:{user['runAsGroup']}"]

    def _mounted(self, pod: Any, container: Any, name: str) -> Iterator[str]:
        kinds = {each["name"]: each for each in pod["volumes"]}
        for mount in container["volumeMounts"]:
            kind = kinds.get(mount["name"], {})
            if "configMap" in kind:
                folder = self._folder / name
                folder.mkdir(mode=0o755)
                for file, text in self._files[kind["configMap"]["name"]].items():
                    (folder / file).write_text(text)
                yield f"--volume={folder}:{mount['mountPath']}:ro"
            elif mount["name"] == "data":
                yield f"--volume={self._disk(pod['securityContext']['fsGroup'], name)}:{mount['mountPath']}"
            else:
                yield f"--tmpfs={mount['mountPath']}"

    def _disk(self, group: int, name: str) -> str:
        """A volume as a cluster hands it out: root's, and open to the pod's group."""
        volume = f"{self.mark}-{name}"
        podman("volume", "create", volume)
        self.volumes.append(volume)
        assert IMAGE is not None
        script = f"chown 0:{group} /disk && chmod 2770 /disk"
        words = [
            "--rm",
            "--no-healthcheck",
            "--network=none",
            "--user=0:0",
            f"--volume={volume}:/disk",
            *LIMITS,
        ]
        podman("run", *words, "--entrypoint", "/bin/sh", IMAGE, "-c", script)
        return volume

    def end(self) -> None:
        """Nothing of it is left."""
        for container in self.made:
            subprocess.run([*PODMAN, "rm", "--force", container], capture_output=True)
        for volume in self.volumes:
            subprocess.run([*PODMAN, "volume", "rm", "--force", volume], capture_output=True)
        subprocess.run([*PODMAN, "network", "rm", "--force", self.mark], capture_output=True)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path)
    try:
        yield made
    finally:
        made.end()


def until(container: str, *command: str) -> None:
    """Until a command in a container, or its page for probes, says that it is well."""
    probe = ["-e", f"HATWISTED_PROBE={READY}", container, "python3", "/opt/hatwisted/healthy.py"]
    words = ["exec", *([container, *command] if command else probe)]
    deadline = time.monotonic() + SECONDS
    while subprocess.run([*PODMAN, *words], capture_output=True).returncode:
        assert time.monotonic() < deadline, podman("logs", container)
        time.sleep(0.5)


def test_they_find_each_other_serve_and_end_in_order(pods: Pods) -> None:
    servers = [pods.start("hatwisted-namesrv", number, 10 + number) for number in range(2)]
    master = pods.start("hatwisted-broker-a-master", 0, 20)
    slave = pods.start("hatwisted-broker-a-slave", 0, 21)
    until(master)
    until(slave)
    podman("exec", "-i", master, "hatwisted", "produce", "Told", "-n", NAMES, given="one\ntwo\n")
    until(slave, "hatwisted", "status", "-n", NAMES)
    for container in (slave, master, *servers):
        podman("stop", "--time", "100", container)
        assert podman("inspect", container, "--format", "{{.State.ExitCode}}").strip() == "0"
    for container in (*servers, master, slave):
        podman("start", container)
    until(slave)
    read = ["hatwisted", "consume", "Told", "-n", NAMES, "--from", "first", "--count", "2"]
    assert sorted(podman("exec", slave, *read).split()) == ["one", "two"]
