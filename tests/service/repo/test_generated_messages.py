"""Compares the generated messages with the .proto files."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
from pathlib import Path

from clients.generate import generate_python

ROOT = Path(__file__).parents[3]
GENERATED = ROOT / "protos/python/antiphon_protos"
CLIENT = ROOT / "clients/python/antiphon_store_client"


def test_committed_messages_are_up_to_date(tmp_path: Path) -> None:
    # The compiler finds its plugin on PATH, in the folder of the interpreter.
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, str(ROOT / "protos/generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, env=env, capture_output=True)
    fresh = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.py"))
    committed = sorted(path.relative_to(GENERATED) for path in GENERATED.rglob("*.py"))
    assert fresh == committed
    different = [str(path) for path in fresh if not filecmp.cmp(tmp_path / path, GENERATED / path, shallow=False)]
    assert not different, f"run `make protos`: {different}"


def test_the_generated_parts_of_the_client_are_up_to_date(tmp_path: Path) -> None:
    generate_python(tmp_path)
    fresh = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(fresh) > 15
    different = [str(path) for path in fresh if not filecmp.cmp(tmp_path / path, CLIENT / path, shallow=False)]
    assert not different, f"run `make protos`: {different}"
