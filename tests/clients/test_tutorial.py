"""Runs docs/tutorial.md block by block against `antiphon up` with the real model."""

from __future__ import annotations

import doctest
import io
import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.support.howto import blocks
from tests.support.system import System

ROOT = Path(__file__).parents[2]
BLOCKS = [block for block in blocks(ROOT / "docs/tutorial.md") if block.language != "console"]
ADDRESS = "http://127.0.0.1:8000"


def steps() -> Iterator[tuple[str, str, str]]:
    """Yields each block that is run: its language, its text, and its documented output."""
    for block, following in zip(BLOCKS, [*BLOCKS[1:], None], strict=True):
        if block.language != "text":
            shown = following.text if following is not None and following.language == "text" else ""
            yield block.language, block.text, shown


def test_every_block_prints_the_documented_output(
    up_system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    for language, text, shown in steps():
        here = text.replace(ADDRESS, up_system.url).replace("smollm2", up_system.model)
        printed = _run_shell(here) if language == "bash" else _run_python(here, session)
        assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), f"{here}\n{printed}"


def test_every_block_of_the_tutorial_is_tested() -> None:
    document = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^```\w", document, re.MULTILINE)) == len(BLOCKS) + 1  # `make run`
    assert [language for language, _, _ in steps()].count("python") > 3


def _run_shell(text: str) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _run_python(text: str, session: dict[str, object]) -> str:
    """Runs a block in a Python session that has run the blocks before."""
    output = io.StringIO()
    with redirect_stdout(output):
        exec(compile(text, "tutorial", "exec"), session)
    return output.getvalue()
