"""Runs each command of docs/howto/command-line.md against `antiphon up` with the real model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.howto import Block, blocks
from tests.support.system import System

ROOT = Path(__file__).parents[2]
COMMANDS = [block for block in blocks(ROOT / "docs/howto/command-line.md") if block.language == "bash"]
ADDRESS = "http://127.0.0.1:8000"


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.section)
def test_each_documented_command_exits_0_and_prints_output(block: Block, up_system: System, tmp_path: Path) -> None:
    text = block.text.replace(ADDRESS, up_system.url).replace("smollm2", up_system.model)
    for command in ("chat", "tree", "doctor", "bench"):
        text = text.replace(f"antiphon {command}", f"antiphon {command} --url {up_system.base_url}")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert done.stdout.strip()
