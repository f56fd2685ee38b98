from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.operations.files import OperationError, new_file


def test_a_new_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(RuntimeError), new_file(path) as draft:
        draft.write_text("half")
        assert not path.exists()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with new_file(path) as draft:
        draft.write_text("all")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "all")]
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(OperationError, match="exists already"), new_file(path) as draft:
        draft.write_text("mine")
        path.write_text("made meanwhile")
    assert path.read_text() == "made meanwhile"
    with pytest.raises(OperationError, match="exists already"), new_file(path):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(OperationError, match="none/file cannot be written: No such file"),
        new_file(tmp_path / "none/file"),
    ):
        pass
