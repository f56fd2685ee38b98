"""A hook of hatchling: the distribution needs the others of its own version."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        names = ("antiphon-server[all]", "antiphon-triton-models")
        metadata["dependencies"] = [f"{name}=={metadata['version']}" for name in names]
