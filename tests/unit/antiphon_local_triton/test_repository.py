from pathlib import Path
from typing import Any

import pytest

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.repository import MODEL_NAME, TEXT_MODELS, write_model_repository


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / 'a "quoted" ü.gguf'
    path.touch()
    return path


def test_settings_are_written_into_the_model_config(tmp_path: Path, gguf: Path) -> None:
    out = write_model_repository(tmp_path / "models", gguf=gguf, context_length=2048, slots=3)
    config = (out / "tensorrt_llm" / "config.pbtxt").read_text("utf-8")
    assert 'key: "context_length"   value: { string_value: "2048" }' in config
    assert 'key: "slots"            value: { string_value: "3" }' in config
    assert f'string_value: "{tmp_path}/a \\"quoted\\" ü.gguf"' in config
    assert sorted(path.name for path in (out / "tensorrt_llm" / "1").iterdir()) == [
        *(
            "dead_ends.py",
            "grammar_trial.py",
            "grammars.py",
            "guides.py",
            "llama_engine.py",
            "model.py",
            "sequences.py",
        ),
        "tensors.py",
    ]


def test_an_existing_repository_is_replaced(tmp_path: Path, gguf: Path) -> None:
    out = write_model_repository(tmp_path / "models", gguf=gguf, context_length=2048, slots=3)
    (out / "another_model").mkdir()
    write_model_repository(out, gguf=gguf, context_length=1024, slots=1)
    assert [path.name for path in out.iterdir()] == ["tensorrt_llm"]
    assert '"1024"' in (out / "tensorrt_llm" / "config.pbtxt").read_text("utf-8")
    assert sorted(tmp_path.iterdir()) == sorted([gguf, out])


def test_the_model_is_written_under_every_requested_name(tmp_path: Path, gguf: Path) -> None:
    names = (MODEL_NAME, *TEXT_MODELS)
    out = write_model_repository(tmp_path / "models", gguf=gguf, context_length=2048, slots=3, models=names)
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    for name in names:
        config = (out / name / "config.pbtxt").read_text("utf-8")
        assert f'name: "{name}"' in config
        assert '"2048"' in config
        assert (out / name / "1" / "llama_engine.py").exists()
        assert (out / name / "1" / "wording.py").exists() == (name in TEXT_MODELS)


def test_a_missing_model_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match="There is no GGUF file"):
        write_model_repository(tmp_path / "models", gguf=tmp_path / "none", context_length=1, slots=1)


@pytest.mark.parametrize("name", ["context_length", "slots", "threads", "prefill_threads"])
def test_a_setting_of_zero_is_refused(name: str, tmp_path: Path, gguf: Path) -> None:
    numbers: dict[str, Any] = {"context_length": 10, "slots": 1, name: 0}
    with pytest.raises(ValueError, match=f"^{name} must be positive"):
        write_model_repository(tmp_path / "models", gguf=gguf, **numbers)
