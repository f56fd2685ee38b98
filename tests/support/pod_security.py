"""Kubernetes' Pod Security Standard `restricted`, as far as our pods can violate it, without an API server.

https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.manifests import Manifest

VOLUMES = frozenset(
    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
)


def faults(pod: Manifest) -> Iterator[str]:
    """Yields the violations of `restricted` in the spec of a pod."""
    context = pod.get("securityContext", {})
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield name
    for volume in pod.get("volumes", []):
        if not VOLUMES & volume.keys():
            yield f"the volume {volume['name']} is of a kind that is not allowed"
    if context.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "no seccomp profile"
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        yield "it may run as root"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        yield from _container_faults(container)


def _container_faults(container: Manifest) -> Iterator[str]:
    context = container.get("securityContext", {})
    name = container["name"]
    if context.get("privileged"):
        yield f"{name} is privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{name} allows privilege escalation"
    if "ALL" not in context.get("capabilities", {}).get("drop", []):
        yield f"{name} keeps capabilities"
    if set(context.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"{name} adds capabilities"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield f"{name} takes a port of its host"
