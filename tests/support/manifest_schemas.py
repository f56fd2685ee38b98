"""Schemas for manifests: Kubernetes' own from kubernetes-validate, and those of custom resources in tests/k8s/crds/.

kubernetes-validate itself is not used for checks: it reads megabytes of definitions for each object, and was forty
times as slow for 360 objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
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
DEFINITIONS = "_definitions.json"


def faults(document: Manifest) -> Iterator[str]:
    """Yields the faults of an object by its schemas, strictly: a field that does not exist is a fault."""
    if document["kind"] in custom_kinds():
        yield from _custom_faults(document)
        for template in pod_templates(document):
            yield from _faults_by_version(_as_pod_template(template))
    else:
        yield from _faults_by_version(document)


@cache
def custom_kinds() -> dict[str, Manifest]:
    """Returns the apiVersion and the strict schema of the spec of each custom resource, by kind."""
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
    group, _, number = document["apiVersion"].rpartition("/")
    name = "-".join(filter(None, (document["kind"].lower(), group.split(".")[0], number)))
    for version in VERSIONS:
        for error in islice(_validator(version, f"{name}.json").iter_errors(document), 1):
            yield f"Kubernetes {version}: {error.message} at {'.'.join(map(str, error.instance_path))}"


@cache
def _validator(version: str, name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(_schema(version, name), registry=_definitions(version))


@cache
def _definitions(version: str) -> jsonschema_rs.Registry:
    definitions = _schema(version, DEFINITIONS)
    return jsonschema_rs.Registry([(definitions["$id"], definitions)])


def _schema(version: str, name: str) -> Manifest:
    """Returns a strict schema of the last patch of a version. FileNotFoundError: the version has no such kind."""
    patch = [each for each in _patches() if each.startswith(f"{version}.")][-1]
    path = f"kubernetes-json-schema/v{patch}-local-strict/{name}"
    schema: Manifest = kubernetes_validate.utils.schema_contents(path, patch)
    return schema


@cache
def _patches() -> list[str]:
    return list(kubernetes_validate.utils.all_versions())


def _as_pod_template(template: Manifest) -> Manifest:
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "template"}, "template": template}


def _strict(schema: Any) -> Any:
    """Forbids other properties in objects with named properties."""
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
