"""The manifests of k8s/ as Kubernetes gets them: overlays, and sensible combinations of components.

kubectl's own kustomize builds everything, without a cluster or a network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
KUBECTL = Path(sys.executable).parent / "kubectl"
SPARE_GC = {"GOGC": "800"}
"""The environment for short programs in Go, half of whose processor time was garbage collection."""
OVERLAYS = ("dev", "prod", "nim", "local")

STORES = (
    "store-memory",
    "store-sqlite",
    "store-redis",
    "store-redis-sentinel",
    "store-redis-cluster",
    "store-postgres",
)
ENGINES = ("triton", "triton-lws", "triton-vllm", "nim-engine", "inference-pool")
FRONTS = ("gateway-api", "ingress")
OBSERVED = ("prometheus", "grafana")


def combinations() -> Iterator[tuple[str, ...]]:
    """Yields every store with all components that change its pods, and every engine with every front, with and without
    monitoring."""
    for store, keda, mtls in product(STORES, ("keda", None), ("mtls", None)):
        yield tuple(name for name in (store, keda, mtls) if name)
    for engine, front, observed in product((None, *ENGINES), (None, *FRONTS), ((), OBSERVED)):
        yield tuple(name for name in ("store-sqlite", engine, front, *observed) if name)
    yield ("store-postgres", "keda", "mtls", *ENGINES[:1], *ENGINES[3:], *FRONTS, *OBSERVED)
    yield ("store-sqlite", *FRONTS, "console")
    yield from ((store, "mtls", "encryption", "tenant-isolation") for store in STORES)
    yield ("store-sqlite", "tools")


@cache
def overlay(name: str) -> list[Manifest]:
    """Returns the objects of one overlay. They are cached: copy objects before you change them."""
    return build(K8S / "overlays" / name)


def combined(components: Sequence[str]) -> list[Manifest]:
    """Returns the objects of the base with these components."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        document = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(K8S / "base", place)],
            "components": [os.path.relpath(K8S / "components" / name, place) for name in components],
        }
        (place / "kustomization.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        return build(place)


def build(folder: Path) -> list[Manifest]:
    command = [str(KUBECTL), "kustomize", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | SPARE_GC)
    assert done.returncode == 0, f"{folder}: {done.stderr}"
    return read_all(done.stdout)


def variants() -> list[str]:
    """Returns the names of all overlays and combinations."""
    return sorted((*OVERLAYS, *map("+".join, combinations())))


@cache
def everything() -> dict[str, list[Manifest]]:
    """Returns all overlays and combinations by name. This takes seconds, so it must not be called while tests are
    collected."""
    named = {"+".join(components): components for components in combinations()}
    with ThreadPoolExecutor(max_workers=4) as pool:
        overlays = dict(zip(OVERLAYS, pool.map(overlay, OVERLAYS), strict=True))
        return overlays | dict(zip(named, pool.map(combined, named.values()), strict=True))


def distinct(variants: dict[str, list[Manifest]]) -> Iterator[tuple[str, Manifest]]:
    """Yields every different object once, with the name of a variant that has it."""
    seen: set[str] = set()
    for name, documents in variants.items():
        for document in documents:
            key = json.dumps(document, sort_keys=True)
            if key not in seen:
                seen.add(key)
                yield f"{name}: {document['kind']}/{document['metadata']['name']}", document


def of_kind(documents: Iterable[Manifest], *kinds: str) -> Iterator[Manifest]:
    return (document for document in documents if document["kind"] in kinds)


def pod_templates(document: Manifest) -> Iterator[Manifest]:
    """Yields the pod templates of an object."""
    spec = document.get("spec", {})
    if document["kind"] in ("Deployment", "StatefulSet"):
        yield spec["template"]
    elif document["kind"] == "LeaderWorkerSet":
        yield spec["leaderWorkerTemplate"]["leaderTemplate"]
        yield spec["leaderWorkerTemplate"]["workerTemplate"]


def read_all(text: str) -> list[Manifest]:
    """Returns the documents of a YAML text."""
    return [document for document in yaml.load_all(text, _LOADER) if document]


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
