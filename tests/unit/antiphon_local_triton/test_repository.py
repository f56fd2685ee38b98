from pathlib import Path
from typing import Any

import pytest

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.repository import write_model_repository
from antiphon_tokens import arguments


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / 'a "quoted" ü.gguf'
    path.touch()
    return path


def test_settings_become_arguments_of_the_engine(tmp_path: Path, gguf: Path) -> None:
    out = write_model_repository(tmp_path / "models", gguf=gguf, context_length=2048, slots=3)
    written = arguments.read(out / "tensorrt_llm/1/model.yaml")
    assert written == {"model": str(gguf), "context_length": 2048, "slots": 3, "threads": 1, "prefill_threads": 1}


def test_an_existing_repository_is_replaced(tmp_path: Path, gguf: Path) -> None:
    out = write_model_repository(tmp_path / "models", gguf=gguf, context_length=2048, slots=3)
    (out / "another_model").mkdir()
    write_model_repository(out, gguf=gguf, context_length=1024, slots=1)
    assert [path.name for path in out.iterdir()] == ["tensorrt_llm"]
    assert arguments.read(out / "tensorrt_llm/1/model.yaml")["context_length"] == 1024
    assert sorted(tmp_path.iterdir()) == sorted([gguf, out])


def test_a_missing_model_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match="There is no GGUF file"):
        write_model_repository(tmp_path / "models", gguf=tmp_path / "none", context_length=1, slots=1)


@pytest.mark.parametrize("name", ["context_length", "slots", "threads", "prefill_threads"])
def test_a_setting_of_zero_is_refused(name: str, tmp_path: Path, gguf: Path) -> None:
    numbers: dict[str, Any] = {"context_length": 10, "slots": 1, name: 0}
    with pytest.raises(ValueError, match=f"^{name} must be positive"):
        write_model_repository(tmp_path / "models", gguf=gguf, **numbers)
