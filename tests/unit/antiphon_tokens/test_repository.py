from pathlib import Path

import pytest

from antiphon_tokens import arguments, repository
from antiphon_tokens.engine import LoadError
from antiphon_tokens.repository import Model

MODEL = Model("mine", "llama_cpp", {"model": "/a.gguf"})


def test_model_is_written_with_its_configuration_its_arguments_and_the_code(tmp_path: Path) -> None:
    folder = repository.write(tmp_path / "models", MODEL)
    assert folder == tmp_path / "models/mine"
    assert arguments.read(folder / "1/model.yaml") == {"model": "/a.gguf"}
    assert (folder / "1/model.py").read_text("utf-8").endswith("import TritonPythonModel  # noqa: F401\n")
    assert (folder / "1/antiphon_tokens/engines/llama_cpp.py").is_file()
    assert not list(folder.rglob("__pycache__"))
    assert 'key: "engine"  value: { string_value: "llama_cpp" }' in (folder / "config.pbtxt").read_text("utf-8")


def test_model_of_the_name_is_replaced_and_others_stay(tmp_path: Path) -> None:
    repository.write(tmp_path / "models", Model("other", "llama_cpp", {}))
    (repository.write(tmp_path / "models", MODEL) / "old").touch()
    repository.write(tmp_path / "models", MODEL)
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["mine", "other"]
    assert not (tmp_path / "models/mine/old").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "models"]


def test_feature_that_is_left_out_is_not_declared(tmp_path: Path) -> None:
    folder = repository.write(tmp_path, Model("mine", "llama_cpp", {}, without=frozenset({"guide"})))
    assert "guided_decoding" not in (folder / "config.pbtxt").read_text("utf-8")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Model("mine", "onnx", {}), "no engine 'onnx'"),
        (Model("mine", "llama_cpp", {}, without=frozenset({"guides"})), "no feature 'guides'"),
    ],
)
def test_mistake_is_refused_before_anything_is_written(tmp_path: Path, model: Model, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        repository.write(tmp_path / "models", model)
    assert list(tmp_path.iterdir()) == []
