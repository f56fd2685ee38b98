"""The Helm chart renders the objects that kustomize builds, and refuses unknown values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from helm_python import Chart, HelmError

from tests.support.manifest_schemas import faults
from tests.support.manifests import K8S, Manifest, combined, of_kind, overlay, read_all

CHART = K8S / "chart"
SAME = ("dev", "local", "prod")
SERVICES = ("edge", "worker", "translator", "store")
ENGINE = "triton"
"""The engine, which is not in this chart: engines have charts of their own."""

_HASHED = re.compile(r"(antiphon-(?:edge|worker|translator|store|profiles))-[a-z0-9]{10}\b")


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart.load(CHART)


@pytest.mark.parametrize("name", SAME)
def test_the_chart_renders_the_same_objects_as_the_overlay(chart: Chart, name: str) -> None:
    built = [one for one in overlay(name) if one["kind"] != "Namespace" and ENGINE not in one["metadata"]["name"]]
    assert _plain(_rendered(chart, _values(name))) == _plain(built)


@pytest.mark.parametrize("backend", ["memory", "sqlite", "redis", "redis-sentinel", "redis-cluster", "postgres"])
def test_the_chart_fits_the_schemas_with_each_backend(chart: Chart, backend: str) -> None:
    fronts = {"gateway": {"enabled": True}, "ingress": {"enabled": True}, "keda": {"enabled": True}}
    rendered = _rendered(chart, {"store": {"backend": backend}, **fronts})
    assert not [fault for one in rendered for fault in faults(one)]


def test_chart_values_appear_in_the_rendered_objects(chart: Chart) -> None:
    values = {
        "image": {"registry": "registry.test", "tag": "2"},
        "edge": {
            "settings": {"ANTIPHON_EDGE_DRAIN_S": 60},
            "resources": {"limits": {"memory": "2Gi"}},
            "maxReplicas": 7,
        },
        "gateway": {"enabled": True, "name": "public", "host": "api.test"},
    }
    found = {(one["kind"], one["metadata"]["name"]): one for one in _rendered(chart, values)}
    (container,) = found["Deployment", "edge"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.test/antiphon-edge:2"
    assert container["resources"] == {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    assert found["ConfigMap", "antiphon-edge"]["data"]["ANTIPHON_EDGE_DRAIN_S"] == "60"
    assert found["HorizontalPodAutoscaler", "edge"]["spec"]["maxReplicas"] == 7
    assert found["HTTPRoute", "edge"]["spec"]["hostnames"] == ["api.test"]


def test_numbers_among_the_settings_are_written_out(chart: Chart) -> None:
    settings = {
        "ANTIPHON_STORE_REQUESTS_BYTES_MAX": 402653184,
        "ANTIPHON_STORE_DRAIN_S": 0.25,
        "ANTIPHON_STORE_INSECURE": True,
    }
    rendered = _rendered(chart, {"store": {"backend": "memory", "settings": settings}})
    (data,) = (one["data"] for one in of_kind(rendered, "ConfigMap") if one["metadata"]["name"] == "antiphon-store")
    assert [data[name] for name in settings] == ["402653184", "0.25", "true"]


def test_workers_that_keda_scales_have_no_replicas_of_their_own(chart: Chart) -> None:
    values = _values("local") | {"keda": {"enabled": True}}
    assert values["worker"] == {"autoscaling": False}
    found = {(one["kind"], one["metadata"]["name"]): one for one in _rendered(chart, values)}
    assert ("ScaledObject", "worker") in found
    assert "replicas" not in found["Deployment", "worker"]["spec"]


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_without_autoscaler_has_the_replicas_of_its_values(chart: Chart, service: str) -> None:
    values: dict[str, dict[str, Any]] = {"store": {"backend": "postgres"}}
    values.setdefault(service, {}).update(autoscaling=False, replicas=3)
    found = {(one["kind"], one["metadata"]["name"]): one for one in _rendered(chart, values)}
    assert ("HorizontalPodAutoscaler", service) not in found
    assert found["Deployment", service]["spec"]["replicas"] == 3


def test_console_routes_of_the_chart_match_the_component(chart: Chart) -> None:
    names = ("gateway", "ingress", "console")
    rendered = _plain(_rendered(chart, {name: {"enabled": True} for name in names}))
    built = _plain(combined(("store-sqlite", "gateway-api", "ingress", "console")))
    for kind in ("HTTPRoute", "Ingress"):
        assert rendered[kind, "edge"] == built[kind, "edge"]


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_store_encryption_of_the_chart_matches_the_component(chart: Chart, backend: str) -> None:
    rendered = _plain(_rendered(chart, {"store": {"backend": backend}, "encryption": {"enabled": True}}))
    built = _plain(combined((f"store-{backend}", "encryption")))
    (workload,) = (one for one in built if one[0] in ("Deployment", "StatefulSet") and one[1] == "store")
    ours, expected = (found[workload]["spec"]["template"]["spec"] for found in (rendered, built))
    assert ours["volumes"] == expected["volumes"]
    assert ours["containers"][0]["volumeMounts"] == expected["containers"][0]["volumeMounts"]
    assert rendered["ConfigMap", "antiphon-store"] == built["ConfigMap", "antiphon-store"]


def test_isolation_of_tenants_in_the_chart_matches_the_component(chart: Chart) -> None:
    rendered = _plain(_rendered(chart, {"store": {"backend": "sqlite"}, "isolation": {"enabled": True}}))
    built = _plain(combined(("store-sqlite", "tenant-isolation")))
    for name in ("edge", "worker"):
        ours, expected = (found["Deployment", name]["spec"]["template"]["spec"] for found in (rendered, built))
        assert "cache-salt-keys" in [volume["name"] for volume in ours["volumes"]]
        assert ours["volumes"] == expected["volumes"]
        assert ours["containers"][0]["volumeMounts"] == expected["containers"][0]["volumeMounts"]
        assert rendered["ConfigMap", f"antiphon-{name}"] == built["ConfigMap", f"antiphon-{name}"]


def test_a_changed_setting_rolls_the_pods_of_its_service_alone(chart: Chart) -> None:
    before, after = (_sums(chart, {"edge": {"settings": {"ANTIPHON_EDGE_DRAIN_S": drain}}}) for drain in (60, 61))
    assert {name for name in SERVICES if before[name] != after[name]} == {"edge"}


@pytest.mark.parametrize(
    "values",
    [
        {"edges": {}},
        {"edge": {"replica": 1}},
        {"edge": {"settings": {"drain_s": 1}}},
        {"store": {"backend": "mysql"}},
        {"store": {"backend": "sqlite", "replicas": 2}},
        {"profiles": {"model": "name"}},
        {"keda": {"enabled": "yes"}},
        {"encryption": {"enabled": True, "secret": "x"}},
    ],
    ids=str,
)
def test_unknown_or_invalid_values_are_refused(chart: Chart, values: dict[str, Any]) -> None:
    with pytest.raises(HelmError):
        chart.validate_schema(values)


def _values(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "values" / f"{name}.yaml").read_text(encoding="utf-8"))
    return values


def _rendered(chart: Chart, values: dict[str, Any]) -> list[Manifest]:
    chart.validate_schema(values)
    texts = chart.render(values, name="antiphon", namespace="antiphon").values()
    return [document for text in texts for document in read_all(text)]


def _sums(chart: Chart, values: dict[str, Any]) -> dict[str, str]:
    workloads = of_kind(_rendered(chart, values), "Deployment", "StatefulSet")
    pods = {one["metadata"]["name"]: one["spec"]["template"]["metadata"] for one in workloads}
    return {name: metadata["annotations"]["checksum/settings"] for name, metadata in pods.items()}


def _plain(documents: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Returns the objects by kind and name, without the differences of the two tools: kustomize puts the hash of a
    ConfigMap into its name, Helm into an annotation of the pods; kustomize writes the namespace, Helm's client adds
    it."""
    found: dict[tuple[str, str], Manifest] = {}
    for document in json.loads(_HASHED.sub(r"\1", json.dumps(documents))):
        document["metadata"].pop("namespace", None)
        if document["kind"] in ("Deployment", "StatefulSet"):
            document["spec"]["template"]["metadata"].pop("annotations", None)
        found[document["kind"], document["metadata"]["name"]] = document
    return found
