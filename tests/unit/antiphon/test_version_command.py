from __future__ import annotations

from importlib.metadata import version

import pytest

from antiphon.cli import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"antiphon {version('antiphon')}\n"
