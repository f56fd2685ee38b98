from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_signature import (
    guide_tensors,
    lora_tensors,
    named_controls,
    sampling_tensors,
    set_controls,
    takes_guides,
)
from antiphon_translator.engines.triton_wire import one
from antiphon_translator.generation import Guide, GuideKind, Sampling

NAMES = {"seed": ("seed", "random_seed"), "top_p": ("runtime_top_p",), "top_k": ("top_k",)}
GUIDED = {"guided_decoding_guide_type": "BYTES", "guided_decoding_guide": "BYTES"}


def model(**inputs: str) -> TritonModel:
    return TritonModel("m", is_batched=True, inputs=inputs)


def test_control_is_sent_under_the_newest_name_of_the_model() -> None:
    old = model(random_seed="UINT64", top_k="INT32")
    assert named_controls(old, NAMES) == {"seed", "top_k"}
    assert sampling_tensors(Sampling(seed=7), old, NAMES) == [one("random_seed", 7)]
    both = model(random_seed="UINT64", seed="UINT64")
    assert sampling_tensors(Sampling(seed=7), both, NAMES) == [one("seed", 7)]
    with pytest.raises(EngineFault, match="no input for top_p"):
        sampling_tensors(Sampling(top_p=0.5), old, NAMES)


def test_temperature_zero_is_sent_as_top_k_1() -> None:
    assert set_controls(Sampling(temperature=0, top_p=0.5, seed=7)) == {"top_k": 1}
    assert set_controls(Sampling(temperature=0.5, seed=0)) == {"temperature": 0.5, "seed": 0}


def test_greedy_sampling_keeps_the_penalties() -> None:
    sampling = Sampling(0, 0.5, 7, 0.1, 1.5, -1.0, 2.0, 9)
    penalties = {"repetition_penalty": 1.5, "presence_penalty": -1.0, "frequency_penalty": 2.0}
    assert set_controls(sampling) == {"top_k": 1} | penalties


def test_guide_is_sent_as_its_kind_and_its_text() -> None:
    assert guide_tensors(None, model()) == []
    assert guide_tensors(Guide(GuideKind.JSON), model(**GUIDED)) == [
        one("guided_decoding_guide_type", "json"),
        one("guided_decoding_guide", ""),
    ]
    assert not takes_guides(model(guided_decoding_guide_type="BYTES"))
    with pytest.raises(EngineFault, match="no input for guide"):
        guide_tensors(Guide(GuideKind.JSON), model())


def test_adapter_is_sent_as_a_numeric_task_id() -> None:
    assert lora_tensors(None, model()) == []
    assert lora_tensors("12", model(lora_task_id="UINT64")) == [one("lora_task_id", 12)]
    with pytest.raises(EngineFault, match="no input for lora"):
        lora_tensors("12", model())
    with pytest.raises(EngineFault, match="must be a number"):
        lora_tensors("mine", model(lora_task_id="UINT64"))
