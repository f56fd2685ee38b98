from __future__ import annotations

import pytest
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines.triton_model import read_config
from tests.support.fake_triton import INPUTS


def config(inputs: dict[str, str], *, decoupled: bool = True, max_batch_size: int = 64) -> ModelConfig:
    made = ModelConfig(name="tensorrt_llm", max_batch_size=max_batch_size)
    made.model_transaction_policy.decoupled = decoupled
    for name, data_type in inputs.items():
        made.input.add(name=name, data_type=DataType.Value(data_type))
    for name in ("output_ids", "sequence_length"):
        made.output.add(name=name, data_type=DataType.Value("TYPE_INT32"))
    return made


def test_the_signature_of_a_current_model() -> None:
    model = read_config(config(INPUTS))
    assert (model.name, model.batched) == ("tensorrt_llm", True)
    assert (model.inputs["seed"], model.inputs["streaming"]) == ("UINT64", "BOOL")
    assert model.input_of("top_p") == "runtime_top_p"
    assert "seed" in model.controls
    assert not read_config(config(INPUTS, max_batch_size=0)).batched


def test_an_older_model_has_older_names_and_fewer_controls() -> None:
    older = {name: kind for name, kind in INPUTS.items() if name not in ("seed", "presence_penalty")}
    model = read_config(config(older | {"random_seed": "TYPE_UINT64"}))
    assert model.input_of("seed") == "random_seed"
    assert "seed" in model.controls
    assert "presence_penalty" not in model.controls


@pytest.mark.parametrize("missing", ["input_ids", "input_lengths", "request_output_len"])
def test_another_kind_of_model_is_told_by_what_it_lacks(missing: str) -> None:
    rest = {name: kind for name, kind in INPUTS.items() if name != missing}
    with pytest.raises(EngineUnavailable, match=f"has no {missing}"):
        read_config(config(rest))


def test_a_model_without_the_outputs_is_refused() -> None:
    text_level = config(INPUTS)
    del text_level.output[:]
    with pytest.raises(EngineUnavailable, match="has no output_ids"):
        read_config(text_level)


def test_a_model_that_cannot_stream_is_told_what_to_set() -> None:
    with pytest.raises(EngineUnavailable, match="decoupled: true"):
        read_config(config(INPUTS, decoupled=False))
