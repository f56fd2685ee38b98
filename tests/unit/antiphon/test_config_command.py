from __future__ import annotations

import pytest

from antiphon import settings
from antiphon.cli import main


def test_config_prints_effective_settings_and_warnings(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_EDGE_HOST", "0.0.0.0")
    monkeypatch.setenv("ANTIPHON_EDGE_INSECURE", "true")
    assert main(["config", "--edge-port", "81"]) == 0
    out, err = capfd.readouterr()
    assert "edge.port = 81\n" in out
    assert "edge.host = '0.0.0.0'\n" in out
    assert "warning: The edge listens on 0.0.0.0" in err


def test_config_markdown_prints_the_reference_page(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--markdown"]) == 0
    assert capfd.readouterr().out == settings.as_markdown()


def test_passwords_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--store-url=redis://:secret@host"]) == 0
    assert "store.url = 'redis://:***@host'\n" in capfd.readouterr().out
