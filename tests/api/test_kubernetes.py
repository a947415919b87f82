# SPDX-License-Identifier: Apache-2.0
"""dist/kubernetes says what docs/deploy.md promises. `make test-kubernetes` applies it to a real cluster; here only its words are read."""

import re

import pytest
import yaml
from conftest import TOP

BASE = TOP / "dist" / "kubernetes"


def load(name):
    return list(yaml.safe_load_all((BASE / name).read_text()))


@pytest.fixture(scope="module")
def pod():
    return load("base/statefulset.yaml")[0]["spec"]["template"]["spec"]


def test_K_23_three_replicas_with_the_resources_of_the_document(pod):
    """`dist/kubernetes`: three replicas, 512Mi and 500m requested, 1Gi and 1000m at most"""
    assert load("base/statefulset.yaml")[0]["spec"]["replicas"] == 3
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def test_K_23_the_key_comes_from_a_secret_that_no_file_holds(pod):
    """The API key comes from a Secret."""
    key = next(row for row in pod["containers"][0]["env"] if row["name"] == "CONSTRICTOR_API_KEY")
    assert key["valueFrom"] == {"secretKeyRef": {"name": "constrictor-keys", "key": "api-key"}}
    assert not re.search(r"kind: Secret$", "".join(p.read_text() for p in BASE.rglob("*.yaml")), re.M)


def test_the_pod_has_the_least_rights_with_which_boxes_can_be_made(pod):
    container = pod["containers"][0]["securityContext"]
    assert container == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                         "capabilities": {"drop": ["ALL"]}}
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "Localhost", "localhostProfile": "constrictor.json"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


def test_the_profile_is_put_where_the_pod_expects_it(pod):
    daemon = load("profile/daemonset.yaml")[1]["spec"]["template"]["spec"]
    name = pod["securityContext"]["seccompProfile"]["localhostProfile"]
    assert f"/profiles/{name}" in daemon["containers"][0]["args"][0]
    assert daemon["volumes"][0]["hostPath"]["path"] == "/var/lib/kubelet/seccomp"
    assert "/usr/lib/constrictor/seccomp.json" in daemon["containers"][0]["args"][0]
    assert re.search(r"^COPY .*dist/seccomp\.json.* /usr/lib/constrictor/$", (TOP / "Dockerfile").read_text(), re.M)


def test_the_metric_that_scales_is_one_that_the_server_has():
    scaler = next(d for d in load("base/limits.yaml") if d["kind"] == "HorizontalPodAutoscaler")
    names = {m["pods"]["metric"]["name"] for m in scaler["spec"]["metrics"] if m["type"] == "Pods"}
    source = (TOP / "src" / "rest" / "metrics.c").read_text()
    assert names and all(f'"{name.removeprefix("constrictor_")}"' in source for name in names)


def test_a_session_stays_with_its_pod():
    service = load("base/service.yaml")[0]["spec"]
    assert service["sessionAffinity"] == "ClientIP"


def test_variables_of_the_config_map_exist():
    """A misspelt one would be ignored, or stop the server."""
    known = (TOP / ".env.example").read_text()
    for row in load("base/kustomization.yaml")[0]["configMapGenerator"][0]["literals"]:
        assert re.search(rf"^#? ?{row.partition('=')[0]}=", known, re.M), row


@pytest.mark.parametrize("overlay", ["plain", "userns", "deployment"])
def test_every_overlay_builds_on_files_that_exist(overlay):
    folder = BASE / "overlays" / overlay
    for name in load(f"overlays/{overlay}/kustomization.yaml")[0]["resources"]:
        assert (folder / name / "kustomization.yaml").exists(), name
