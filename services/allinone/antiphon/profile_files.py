"""The model profiles that `antiphon up` writes into its data folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def replace_all(folder: Path, profiles: Sequence[Mapping[str, str | int]]) -> None:
    """Writes these profiles, and deletes those of earlier runs."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.toml"):
        old.unlink()
    for number, members in enumerate(profiles):
        # A JSON string or number is also valid TOML.
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in members.items()]
        (folder / f"model-{number}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
