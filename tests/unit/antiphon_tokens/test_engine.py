import pytest

from antiphon_tokens import engine, signature
from antiphon_tokens.engine import LoadError


def test_each_engine_has_features_that_exist_and_can_be_imported_without_its_library() -> None:
    assert "llama_cpp" in engine.names()
    for name in engine.names():
        assert set(signature.FEATURES) >= engine.module(name).FEATURES


def test_unknown_engine_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(LoadError, match=r"no engine 'onnx'; there are: .*llama_cpp"):
        engine.module("onnx")


def test_missing_feature_is_refused_with_what_the_library_lacks_and_what_to_do() -> None:
    engine.require("tensorrt_llm 1.0", {})
    with pytest.raises(LoadError, match=r"llm 1.0 cannot serve: lora \(no b\); retention .* --without lora,ret"):
        engine.require("tensorrt_llm 1.0", {"retention": "a", "lora": "b"})
