"""Installs the packages of `make dist` in fresh virtual environments: all of them, and each target alone."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.package import make_wheel
from tests.support.system import Command

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
# The options that each target needs to start. Nothing has to listen on the addresses.
TARGETS = {
    "store": ["--store-port=0"],
    "translator": ["--translator-port=0", "--translator-profiles=profiles"],
    "tools": ["--tools-port=0"],
    "edge": ["--edge-port=0", "--edge-store=127.0.0.1:9", "--edge-translator=127.0.0.1:9"],
    "worker": ["--worker-store=127.0.0.1:9", "--worker-translator=127.0.0.1:9"],
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for source in (ROOT, ROOT / "triton_models", ROOT / "services/allinone/distribution"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
    make_wheel(folder)
    return folder


@pytest.fixture(scope="module")
def environments_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which each test makes its environment. All use one path, so that they share compiled modules."""
    folder = tmp_path_factory.mktemp("environments")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPYCACHEPREFIX", str(folder / "bytecode"))
        yield folder


def venv(environments_folder: Path, wheels: Path, *requirements: str) -> Path:
    """Makes a new environment with these requirements, in the versions of this environment. Returns its interpreter."""
    folder = environments_folder / "venv"
    subprocess.run([UV, "venv", "--quiet", "--clear", f"--python={sys.executable}", str(folder)], check=True)
    python = folder / "bin/python"
    subprocess.run(
        [UV, "pip", "install", "--quiet", f"--python={python}", f"--find-links={wheels}",
         f"--constraint={pins(environments_folder)}", *requirements],
        check=True,
    )  # fmt: skip
    return python


def pins(folder: Path) -> Path:
    """Writes requirements.txt without hashes, because our own wheels have none."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    kept = folder / "pins.txt"
    kept.write_text("".join(f"{line.partition(' --hash')[0].strip()}\n" for line in lines if line.strip()))
    return kept


@pytest.fixture(autouse=True)
def without_pythonpath(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes PYTHONPATH, which leads to the repository."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


def test_antiphon_installed_from_wheels_starts_and_answers(
    environments_folder: Path, tmp_path: Path, wheels: Path
) -> None:
    python = venv(environments_folder, wheels, "antiphon", "antiphon-store-client")
    command = Command("up", "--port=0", f"--data={tmp_path}/data", folder=tmp_path, python=python)
    try:
        url = command.wait_for(r"edge +(http://\S+)")[1]
        body = {"model": "smollm2", "input": "What is the capital of France?", "temperature": 0}
        request = urllib.request.Request(
            f"{url}/responses", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            text = json.load(answer)["output"][0]["content"][0]["text"]
        assert text == "The capital of France is Paris."
    finally:
        command.stop()


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_starts_with_its_own_extra_alone(
    target: str, environments_folder: Path, tmp_path: Path, wheels: Path
) -> None:
    python = venv(environments_folder, wheels, f"antiphon-server[{target}]")
    help_ = [str(python), "-m", "antiphon", "serve", "--help"]
    assert "--target" in subprocess.run(help_, check=True, capture_output=True, text=True).stdout
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/m.toml").write_text(
        'name = "m"\nengine = "openai_chat"\nendpoint = "http://127.0.0.1:9/v1"\n'
    )
    command = Command("serve", f"--target={target}", *TARGETS[target], folder=tmp_path, python=python)
    try:
        command.wait_for(rf"^{target} +")
    finally:
        command.stop()
