from __future__ import annotations

import pytest

from antiphon.cli import main
from antiphon_core.version import VERSION


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"antiphon {VERSION}\n"
