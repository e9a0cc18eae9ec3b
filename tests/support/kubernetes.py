"""The Helm chart, rendered, and objects checked by kubeconform, where these programs are installed.

go install helm.sh/helm/v3/cmd/helm@latest github.com/yannh/kubeconform/cmd/kubeconform@latest
"""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.processes import REPOSITORY

CHART = REPOSITORY / "conf" / "kubernetes" / "chart"
OLDEST = "1.28.0"
"""The first Kubernetes that the chart is for."""


def needed(program: str) -> str:
    """Where it is; the test is skipped without it."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}")
    return found


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """What `helm` says and how it ends."""
    return subprocess.run([needed("helm"), *words], capture_output=True, text=True)


def rendered(values: dict[str, Any] | None = None, release: str = "hatwisted") -> str:
    """The chart's objects, as a text.

    - values: other than the chart's own
    - release: what it is installed as
    """
    given = [f"--set-json={key}={json.dumps(value)}" for key, value in (values or {}).items()]
    done = helm("template", release, str(CHART), "--kube-version", OLDEST, *given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> dict[tuple[str, str], Any]:
    """By kind and name."""
    found = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def schemas(folder: Path, version: str) -> str:
    """Kubernetes' schemas, of the package that `make lint` uses, in a form that kubeconform reads offline.

    - folder: where to write them
    - version: of Kubernetes
    """
    spec = find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        pytest.skip("needs kubernetes-validate (the extra lint)")
    source = Path(spec.origin).parent / "kubernetes-json-schema" / f"v{version}-local-strict"
    target = folder / f"v{version}"
    target.mkdir(parents=True)
    wanted = ["_definitions", *(f"{kind}-v1" for kind in ("configmap", "service"))]
    for name in [*wanted, "statefulset-apps-v1", "poddisruptionbudget-policy-v1"]:
        text = (
            (source / f"{name}.json").read_text().replace('"/api/_definitions.json#', '"_definitions.json#')
        )
        schema = json.loads(text)
        schema.pop("$id", None)  # an address on the network, to which the references would be relative
        (target / f"{name}.json").write_text(json.dumps(schema))
    return f"{folder}/{{{{.NormalizedKubernetesVersion}}}}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def conform(text: str, folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    """kubeconform's verdict.

    - text: of objects
    - folder: for the schemas
    - version: of Kubernetes
    """
    program = needed("kubeconform")
    options = ["-strict", "-summary", "-kubernetes-version", version]
    words = [program, *options, "-schema-location", schemas(folder, version), "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True)
