"""The Helm chart: what it makes of its values, judged by kubeconform and by the servers' own checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hatwisted
from hatwisted.config.load import load_broker_config
from hatwisted.config.roles import as_master, as_slave
from testbed.processes import REPOSITORY
from tests.support.kubernetes import CHART, OLDEST, conform, helm, objects, rendered
from tests.support.loopback import HOST

MANIFEST = REPOSITORY / "conf" / "kubernetes" / "hatwisted.yaml"
NEWEST = "1.35.0"
RICH: dict[str, Any] = {
    "image": {"repository": "registry.example/hatwisted", "tag": "1.2.3", "pullSecrets": [{"name": "pull"}]},
    "namesrv": {"replicas": 3},
    "groups": [
        {
            "name": "orders",
            "slaves": 2,
            "config": {"mappedFileSizeCommitLog": 268435456, "inSyncReplicas": 2},
        },
        {
            "name": "audit",
            "slaves": 0,
            "storage": {"size": "20Gi"},
            "resources": {"limits": {"memory": "1Gi"}},
        },
        {"name": "logs", "slaves": 1, "role": "ASYNC_MASTER"},
    ],
    "config": {"flushDiskType": "SYNC_FLUSH", "diskMaxUsedSpaceRatio": 80, "autoCreateTopicEnable": False},
    "storage": {"size": "200Gi", "className": "fast"},
    "secret": "certificates",
    "hostNetwork": True,
    "nodeSelector": {"disk": "nvme"},
    "tolerations": [{"key": "brokers", "operator": "Exists"}],
    "podAnnotations": {"prometheus.io/scrape": "true"},
}
"""Every value other than the chart's own."""


def sets(made: dict[tuple[str, str], Any]) -> dict[str, Any]:
    return {name: each["spec"] for (kind, name), each in made.items() if kind == "StatefulSet"}


def test_the_manifest_is_what_it_makes_of_its_defaults() -> None:
    made = rendered()
    written = "".join(line for line in made.splitlines(True) if not line.startswith("# Source:"))
    assert MANIFEST.read_text().endswith(written.removeprefix("---\n")), "helm template hatwisted chart"


def test_its_version_is_the_package_s() -> None:
    assert f"\nappVersion: {hatwisted.__version__}\n" in (CHART / "Chart.yaml").read_text()


def test_helm_finds_no_fault() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", [{}, RICH], ids=["defaults", "rich"])
def test_kubeconform_finds_no_fault(values: dict[str, Any], version: str, tmp_path: Path) -> None:
    done = conform(rendered(values), tmp_path, version)
    assert done.returncode == 0, done.stdout
    assert "Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


def test_kubeconform_would_find_one(tmp_path: Path) -> None:
    done = conform(rendered().replace("serviceName:", "servicename:"), tmp_path, OLDEST)
    assert done.returncode == 1 and "servicename" in done.stdout


def test_every_group_has_its_sets_and_configurations(tmp_path: Path) -> None:
    made = objects(rendered(RICH, "mq"))
    found = sets(made)
    replicas = {name: each["replicas"] for name, each in found.items()}
    assert replicas == {
        "mq-namesrv": 3, "mq-orders-master": 1, "mq-orders-slave": 2, "mq-audit-master": 1,
        "mq-logs-master": 1, "mq-logs-slave": 1,
    }  # fmt: skip
    pods = [f"mq-namesrv-{number}.mq-namesrv:9876" for number in range(3)]
    roles = {}
    for group in ("orders", "audit", "logs"):
        for name, text in made["ConfigMap", f"mq-{group}"]["data"].items():
            path = tmp_path / f"{group}-{name}"
            path.write_text(text)
            slave = name == "slave.conf"
            loaded = load_broker_config(str(path), ["brokerId=1"] if slave else [], host=HOST)
            loaded = (as_slave if slave else as_master)(loaded)
            assert loaded.warnings == []
            config = loaded.config
            assert (config.broker_name, config.name_servers) == (group, pods)
            assert config.flush_disk_type.name == "SYNC_FLUSH" and not config.auto_create_topic_enable
            assert config.mapped_file_size_commit_log == (1 << (28 if group == "orders" else 30))
            roles[group, name] = config.broker_role.name
    assert [roles[group, "master.conf"] for group in ("orders", "audit", "logs")] == [
        "SYNC_MASTER", "ASYNC_MASTER", "ASYNC_MASTER",
    ]  # fmt: skip


def test_no_two_sets_or_services_select_the_same_pods() -> None:
    made = objects(rendered(RICH, "mq"))
    labels = {name: each["template"]["metadata"]["labels"] for name, each in sets(made).items()}
    for name, each in sets(made).items():
        chosen = each["selector"]["matchLabels"].items()
        assert [other for other, has in labels.items() if chosen <= has.items()] == [name]
        service = made["Service", each["serviceName"]]["spec"]["selector"].items()
        assert service <= labels[name].items()


def test_other_values_reach_the_pods() -> None:
    made = sets(objects(rendered(RICH, "mq")))
    pod = made["mq-orders-slave"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/hatwisted:1.2.3"
    assert pod["hostNetwork"] and pod["nodeSelector"] == {"disk": "nvme"}
    env = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    assert env == {"NODE_OR_POD_IP": "status.hostIP", "POD_NAME": "metadata.name"}
    assert {"name": "secret", "mountPath": "/etc/hatwisted-secret", "readOnly": True} in container[
        "volumeMounts"
    ]
    claims = {
        name: each["volumeClaimTemplates"][0]["spec"] for name, each in made.items() if "namesrv" not in name
    }
    assert claims["mq-orders-master"]["storageClassName"] == "fast"
    sizes = {name: each["resources"]["requests"]["storage"] for name, each in claims.items()}
    assert sizes["mq-audit-master"] == "20Gi" and sizes["mq-logs-slave"] == "200Gi"
    (audit,) = made["mq-audit-master"]["template"]["spec"]["containers"]
    assert audit["resources"] == {"limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("groups=[]", "groups"),
        ('groups=[{"name":"a","slave":1,"slaves":1}]', "slave"),
        ('groups=[{"name":"Broker_A","slaves":1}]', "name"),
        ('config={"brokerName":"b"}', "brokerName"),
        ('storage={"size":"much"}', "size"),
        ('storage={"size":"1..5Gi"}', "size"),
        ('storage={"size":"100K"}', "size"),
        ('groups=[{"name":"a","slaves":1},{"name":"a","slaves":0}]', "a is there already"),
        ('groups=[{"name":"namesrv","slaves":1}]', "namesrv is there already"),
        ("hostnetwork=true", "hostnetwork"),
    ],
)
def test_a_mistake_is_told(wrong: str, said: str) -> None:
    done = helm("template", "mq", str(CHART), "--kube-version", OLDEST, f"--set-json={wrong}")
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("1st", "has to begin with a letter"),
        ("mq.east", "has to begin with a letter"),
        ("m" * 40, "may have 52"),
    ],
)
def test_a_release_s_name_that_the_cluster_would_refuse_is_told(release: str, said: str) -> None:
    done = helm("template", release, str(CHART), "--kube-version", OLDEST)
    assert done.returncode == 1
    assert said in done.stderr


def labels_in(node: Any) -> Iterator[dict[str, Any]]:
    """Of objects, of their pods, and those that select."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if key in ("labels", "matchLabels") or (key == "selector" and "matchLabels" not in value):
            yield value
        elif isinstance(value, (dict, list)):
            yield from labels_in(value)


@pytest.mark.parametrize("word", ["on", "y", "null", "true"])
def test_names_that_yaml_takes_for_something_else_are_names(word: str) -> None:
    values = {
        **RICH,
        "groups": [{"name": word, "slaves": 1}],
        "secret": word,
        "storage": {"size": "1Gi", "className": word},
    }
    made = objects(rendered(values, word))
    for each in made.values():
        for labels in labels_in(each):
            assert {*map(type, labels.values())} == {str}, labels
    pod = made["StatefulSet", f"{word}-{word}-slave"]["spec"]
    (secret,) = (each["secret"] for each in pod["template"]["spec"]["volumes"] if "secret" in each)
    assert secret["secretName"] == word
    assert pod["volumeClaimTemplates"][0]["spec"]["storageClassName"] == word
