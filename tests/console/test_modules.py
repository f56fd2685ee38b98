"""The modules of the console that need no browser, by node's own test runner, and the types of all of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_the_modules_pass_their_own_tests() -> None:
    files = sorted(str(path) for path in (ROOT / "tests/console/modules").glob("*.test.mjs"))
    ran = _run("node", "--test", *files)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(files) >= 18


def test_every_module_of_the_core_has_tests() -> None:
    told = "".join(path.read_text("utf-8") for path in (ROOT / "tests/console/modules").glob("*.mjs"))
    core = ROOT / "services/edge/antiphon_edge/console/web/app/core"
    assert not [path.name for path in core.glob("*.js") if f"core/{path.name}" not in told]


def test_types_are_right() -> None:
    checked = _run("node_modules/.bin/tsc", "--project", "services/edge/antiphon_edge/console/jsconfig.json")
    assert checked.returncode == 0, checked.stdout
