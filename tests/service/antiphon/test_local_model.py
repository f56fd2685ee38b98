from __future__ import annotations

from pathlib import Path

import pytest

from antiphon import local_model
from antiphon_local_triton import supervisor
from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.supervisor import LocalTriton
from antiphon_local_triton.triton import TritonCommand


async def test_a_second_process_leaves_the_model_repository_of_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = tmp_path / "m.gguf"
    gguf.write_bytes(b"GGUF")
    directory = tmp_path / "directory"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    held = LocalTriton(lambda _ports: TritonCommand(("/bin/false",), {}), data_dir=tmp_path / "triton")
    monkeypatch.setattr(local_model, "ensure_server_venv", lambda _cache, _report: tmp_path)
    monkeypatch.setattr(local_model, "build_model_directory", lambda _gguf, _out: directory)
    monkeypatch.setattr(supervisor, "read_layout", lambda _venv: None)
    await held.start()
    try:
        model = local_model.prepare("m", gguf=gguf, data=tmp_path, profiles_folder=tmp_path / "profiles")
        with pytest.raises(LocalModelError, match="Another antiphon"):
            await model.start()
        assert not (tmp_path / "triton" / "repository").exists()
    finally:
        await held.stop()
