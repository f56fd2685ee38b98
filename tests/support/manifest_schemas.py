"""Schemas for manifests: Kubernetes' own by kubernetes-validate, and those of custom resources in tests/k8s/crds/."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate.utils
import yaml

from tests.support.manifests import Manifest, pod_templates

VERSIONS = ("1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
"""The Kubernetes versions that Antiphon's manifests are for."""
FOLDER = Path(__file__).parents[1] / "k8s" / "crds"
SHARED = "shared.yaml"

# The library reads megabytes of definitions for each object. The test of 180 objects took twelve times as long.
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)


def faults(document: Manifest) -> Iterator[str]:
    """Returns the faults of an object by its schemas, strictly: a field that does not exist is a fault."""
    if document["kind"] in custom_kinds():
        yield from _custom_faults(document)
        for template in pod_templates(document):
            yield from _faults_by_version(_as_pod_template(template))
    else:
        yield from _faults_by_version(document)


@cache
def custom_kinds() -> dict[str, Manifest]:
    """Of each custom resource, its apiVersion and the strict schema of its spec."""
    shared = _strict(_read(FOLDER / SHARED))
    found: dict[str, Manifest] = {}
    for path in FOLDER.glob("*.yaml"):
        if path.name != SHARED:
            for kind, declared in _read(path).items():
                schema = {**_strict(declared["spec"]), "$defs": shared}
                found[kind] = {"apiVersion": declared["apiVersion"], "schema": schema}
    return found


def _custom_faults(document: Manifest) -> Iterator[str]:
    declared = custom_kinds()[document["kind"]]
    if document["apiVersion"] != declared["apiVersion"]:
        yield f"apiVersion {document['apiVersion']} is not {declared['apiVersion']}"
    for error in jsonschema_rs.Draft202012Validator(declared["schema"]).iter_errors(document["spec"]):
        yield f"{error.message} at spec.{'.'.join(map(str, error.instance_path))}"


def _faults_by_version(document: Manifest) -> Iterator[str]:
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {error.message} at {'.'.join(map(str, error.path))}"


def _as_pod_template(template: Manifest) -> Manifest:
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "template"}, "template": template}


def _strict(schema: Any) -> Any:
    """Objects with named properties have no others."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _strict(value) for name, value in schema.items()}
    if closed.get("type") == "object" and "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed


def _read(path: Path) -> Manifest:
    read: Manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    return read
