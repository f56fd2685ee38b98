"""Detection of the model family from real chat templates."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from antiphon_translator.parsing import families

HERE = Path(__file__).parent
FOLDERS = [HERE, *map(Path, filter(None, [os.environ.get("CHAT_TEMPLATES")]))]
EXPECTED: dict[str, str] = json.loads((HERE / "families.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "path", [path for folder in FOLDERS for path in sorted(folder.glob("*.jinja"))], ids=lambda path: path.stem
)
def test_family_of_a_real_template_is_detected(path: Path) -> None:
    assert families.detect(path.read_text("utf-8"), ()) == EXPECTED[path.stem]


def test_every_template_has_an_expected_family_that_exists() -> None:
    assert set(EXPECTED.values()) <= set(families.names())
    assert {path.stem for path in HERE.glob("*.jinja")} <= set(EXPECTED)
