import shutil
import sys
from pathlib import Path

import pytest

from antiphon_local_triton import interpreter
from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.interpreter import Interpreter, find_interpreter


def _known(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, bool]) -> None:
    """Replaces the interpreters: the first of `found` is the running Python, all of them are on PATH."""
    versions = dict(found)
    names = {f"/bin/python{version}": version for version in versions}

    def ask(path: str) -> Interpreter | None:
        version = names.get(path)
        return None if version is None else Interpreter(path, version, Path("/lib"), versions[version])

    monkeypatch.setattr(sys, "executable", f"/bin/python{found[0][0]}")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if f"/bin/{name}" in names else None)
    monkeypatch.setattr(interpreter, "_describe", ask)


def test_the_running_python_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, ("3.10", True), ("3.12", True))
    assert find_interpreter().version == "3.10"


def test_no_other_python_is_run_when_the_first_suits(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, ("3.10", True), ("3.12", True))
    asked: list[str] = []
    known = interpreter._describe

    def ask(path: str) -> Interpreter | None:
        asked.append(path)
        return known(path)

    monkeypatch.setattr(interpreter, "_describe", ask)
    find_interpreter()
    assert asked == ["/bin/python3.10"]


def test_an_older_python_is_used_when_the_running_one_is_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, ("3.14", True), ("3.11", False), ("3.10", True))
    assert find_interpreter().version == "3.10"


def test_a_too_new_python_alone_is_refused_with_an_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, ("3.14", True))
    with pytest.raises(LocalModelError, match=r"needs Python 3\.10, 3\.11, 3\.12.*apt install python3\.12-venv"):
        find_interpreter()


def test_a_missing_shared_library_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, ("3.11", False))
    with pytest.raises(LocalModelError, match=r"libpython3\.11\.so\.1\.0.*apt install libpython3\.11\."):
        find_interpreter()


def test_the_running_python_is_described_with_its_version() -> None:
    described = interpreter._describe(sys.executable)
    assert described is not None
    assert described.version == "{}.{}".format(*sys.version_info[:2])


def test_a_missing_interpreter_is_skipped(tmp_path: Path) -> None:
    assert interpreter._describe(str(tmp_path / "python3.11")) is None
