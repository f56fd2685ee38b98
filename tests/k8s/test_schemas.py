"""Validates every object of every overlay and combination strictly, for all supported Kubernetes versions."""

from __future__ import annotations

import copy

import pytest
import yaml

from tests.support import pod_security
from tests.support.manifest_schemas import VERSIONS, custom_kinds, faults
from tests.support.manifests import K8S, Manifest, distinct, everything, of_kind, overlay


def test_every_object_fits_its_schema() -> None:
    found = [f"{name}: {fault}" for name, document in distinct(everything()) for fault in faults(document)]
    assert not found


def test_every_custom_kind_with_a_schema_is_used() -> None:
    kinds = {document["kind"] for _, document in distinct(everything())}
    assert custom_kinds().keys() <= kinds


def test_a_field_that_does_not_exist_is_found_for_every_version() -> None:
    deployment = copy.deepcopy(_first("dev", "Deployment"))
    deployment["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    assert [fault.split(":")[0] for fault in faults(deployment)] == [f"Kubernetes {version}" for version in VERSIONS]


@pytest.mark.parametrize("path", [("replica",), ("expose", "service", "ports"), ("scale", "hpa", "max")])
def test_a_field_that_a_nim_service_does_not_have_is_found(path: tuple[str, ...]) -> None:
    service = copy.deepcopy(_first("nim", "NIMService"))
    place = service["spec"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = 1
    assert list(faults(service))


def test_the_pod_that_loads_models_fits_its_schema_and_is_restricted() -> None:
    (pod,) = of_kind([yaml.safe_load((K8S / "overlays" / "local" / "loader.yaml").read_text(encoding="utf-8"))], "Pod")
    assert not [*faults(pod), *pod_security.faults(pod["spec"])]


def _first(variant: str, kind: str) -> Manifest:
    return next(of_kind(overlay(variant), kind))
