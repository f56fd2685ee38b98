"""The behaviour of the NIM Operator (3.1) toward the pods of a NIMService: its environment variables, its probe paths,
and its reading of the answers. Names and rules are those of its sources (api/apps/v1alpha1, internal/nimmodels)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antiphon_core.jsons import Object
from tests.support.manifests import Manifest, of_kind, overlay

STORE = "/model-store"
"""The path at which the Operator mounts the claim of a NIMService."""
METRICS_PATH = "/v1/metrics"
"""The path that the Operator's ServiceMonitor scrapes on the port `api`."""
DEFAULT_PROBES = {
    "livenessProbe": "/v1/health/live",
    "readinessProbe": "/v1/health/ready",
    "startupProbe": "/v1/health/ready",
}


def edge_service() -> Manifest:
    """Returns the NIMService of the overlay that runs the edge."""
    (service,) = (one for one in of_kind(overlay("nim"), "NIMService") if one["metadata"]["name"] == "edge")
    return service


def port_of(service: Manifest) -> int:
    return int(service["spec"]["expose"]["service"]["port"])


def environ(service: Manifest) -> dict[str, str]:
    """Returns the environment of a pod: the variables that the Operator always sets, and those of the manifest."""
    port = str(port_of(service))
    theirs = {"NIM_CACHE_PATH": STORE, "NGC_API_KEY": "key", "OUTLINES_CACHE_DIR": "/tmp/outlines"}
    theirs |= {"NIM_SERVER_PORT": port, "NIM_HTTP_API_PORT": port}
    theirs |= {"NIM_JSONL_LOGGING": "1", "NIM_LOG_LEVEL": "INFO"}
    return theirs | {one["name"]: one["value"] for one in service["spec"]["env"]}


def probe_paths(service: Manifest) -> Iterator[str]:
    """Yields the probe paths: those of the manifest, or else the Operator's own."""
    for name, path in DEFAULT_PROBES.items():
        probe: Any = service["spec"].get(name, {}).get("probe")
        yield path if probe is None else probe["httpGet"]["path"]


def model_name(models: Object) -> str:
    """Returns the model that the Operator regards as the service's own: the only one, or the first whose root is
    itself."""
    assert models["object"] == "list"
    if len(models["data"]) == 1:
        return str(models["data"][0]["id"])
    return next(str(one["id"]) for one in models["data"] if one["object"] == "model" and one.get("root") == one["id"])
