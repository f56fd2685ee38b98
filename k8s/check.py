"""Builds the manifests and checks them: the Kubernetes schema, strictly, and that every setting in them exists."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from antiphon import settings
from antiphon_core.config import SettingsError

HERE = Path(__file__).absolute().parent
KUBECTL = Path(sys.executable).parent / "kubectl"
VERSIONS = ("1.32", "1.37")  # the oldest that we promise, and the newest


def build(folder: Path) -> list[dict[str, Any]]:
    command = [KUBECTL, "kustomize", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own tool and folder
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def faults(document: dict[str, Any]) -> Iterator[str]:
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {error.message} at {'.'.join(map(str, error.path))}"
    if document["kind"] == "ConfigMap" and any(name.startswith("ANTIPHON_") for name in document["data"]):
        try:
            settings.load(environ=document["data"], flags={}, file=None)
        except SettingsError as error:
            yield str(error)


def main() -> int:
    failed = False
    for folder in (HERE / "base",):
        documents = build(folder)
        for document in documents:
            for fault in faults(document):
                failed = True
                print(f"{folder.name}: {document['kind']}/{document['metadata']['name']}: {fault}")
        print(f"k8s/{folder.name}: {len(documents)} objects checked")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
