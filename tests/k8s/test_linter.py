"""Runs Checkov over all overlays. A table has the skipped checks, each with its reason, and no others."""

from __future__ import annotations

import pytest
import yaml

from tests.support.checkov import Finding, findings
from tests.support.manifests import OVERLAYS, overlay

ALL = "every pod"
# check -> (the pods that fail the check, the reason for skipping it)
SKIPPED = {
    "CKV_K8S_11": (ALL, "no limit of processor time: throttled, a pod would stop all of its streams for up to 100 ms"),
    "CKV_K8S_15": (ALL, "tags are versions that never move, so a node may keep its image while the registry is away"),
    "CKV_K8S_43": (ALL, "digests are those of your build: `kustomize edit set image` writes them (k8s/README.md)"),
    "CKV_K8S_35": ("store", "the store has no setting for a file with its URL; the Secret reaches its pod alone"),
    "CKV_K8S_40": ("triton", "the user of NVIDIA's image is 1000, to whom its files belong"),
    "CKV_K8S_8": ("worker", "it serves nothing but metrics, and one that hangs loses its jobs by the store's clock"),
    "CKV_K8S_9": ("worker", "nothing is sent to a worker: it asks for its work"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    folder = tmp_path_factory.mktemp("overlays")
    for name in OVERLAYS:
        (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(overlay(name)), encoding="utf-8")
    return findings(folder)


def test_the_linter_finds_nothing_but_the_skipped_checks(found: list[Finding]) -> None:
    assert not [one for one in found if not _is_skipped(one)]


def test_every_skip_is_needed(found: list[Finding]) -> None:
    assert {one.check for one in found} == SKIPPED.keys()


def _is_skipped(finding: Finding) -> bool:
    pods, _ = SKIPPED.get(finding.check, ("", ""))
    return pods in (ALL, finding.resource.rpartition(".")[2])
