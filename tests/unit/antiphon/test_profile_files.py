from __future__ import annotations

import tomllib
from pathlib import Path

from antiphon import profile_files


def test_profiles_replace_those_of_earlier_models(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    profile_files.replace_all(folder, [{"name": "a"}, {"name": "b"}])
    profile_files.replace_all(folder, [{"name": 'two "quoted" ü', "context_length": 7}])
    (written,) = folder.glob("*.toml")
    assert tomllib.loads(written.read_text("utf-8")) == {"name": 'two "quoted" ü', "context_length": 7}
