from __future__ import annotations

import pytest

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines.triton_model import read_config
from tests.support.fake_triton import ENSEMBLE, VLLM, FakeTriton


def test_model_configuration_is_read() -> None:
    model = read_config(FakeTriton(parameters={"accumulate_tokens": "true"}).config())
    assert (model.name, model.is_batched, model.is_ensemble) == ("tensorrt_llm", True, False)
    assert (model.inputs["seed"], model.inputs["streaming"]) == ("UINT64", "BOOL")
    assert model.outputs == {"output_ids", "sequence_length"}
    assert model.parameters == {"accumulate_tokens": "true"}
    assert model.first_of(("random_seed", "seed")) == "seed"
    assert model.first_of(("random_seed",)) is None
    assert model.lacks(("seed",), ("output_ids",)) is None
    assert model.lacks(("nope",), ("output_ids",)) == "nope"
    assert model.lacks((), ("text_output",)) == "text_output"


def test_text_model_is_read_by_its_tensor_names() -> None:
    model = read_config(FakeTriton(VLLM).config())
    assert model.inputs["text_input"] == "BYTES"
    assert not model.is_batched


def test_input_of_a_data_type_of_a_newer_triton_is_read_by_its_number() -> None:
    config = FakeTriton().config()
    config.input[0].data_type = 99
    assert read_config(config).inputs[config.input[0].name] == "type 99"


def test_model_that_is_not_decoupled_is_unavailable_with_a_remedy() -> None:
    with pytest.raises(EngineUnavailable, match="decoupled: true"):
        read_config(FakeTriton(decoupled=False).config())


def test_ensemble_does_not_need_to_be_decoupled() -> None:
    assert read_config(FakeTriton(ENSEMBLE, decoupled=False).config()).is_ensemble
