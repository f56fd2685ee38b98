from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli import main

Output = pytest.CaptureFixture[str]


def test_a_healthy_setup_has_no_fault(base_url: str, capsys: Output) -> None:
    assert main(["doctor", "--url", base_url]) == 0
    printed = capsys.readouterr().out
    assert f"✓ server       {base_url} serves m, seer" in printed
    assert "✗" not in printed


def test_a_broken_store_is_a_fault_with_exit_status_1(base_url: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "store.db").write_text("no database" * 100)
    assert main(["doctor", "--url", base_url, f"--store-url=sqlite:///{tmp_path}/store.db"]) == 1
    assert "✗ store" in capsys.readouterr().out


def test_an_invalid_setting_is_a_fault_with_exit_status_1(base_url: str, capsys: Output) -> None:
    assert main(["doctor", "--url", base_url, "--edge-port=many"]) == 1
    assert "✗ settings     --edge-port" in capsys.readouterr().out
