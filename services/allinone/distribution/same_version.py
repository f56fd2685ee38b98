"""A hook of hatchling: the distribution needs `antiphon-server` of its own version."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class SameVersion(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = [f"antiphon-server[all]=={metadata['version']}"]
