from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines.triton_detect import describe
from antiphon_translator.engines.triton_model import read_config
from antiphon_translator.engines.triton_text import LLM_API as LLM_API_NAMES
from antiphon_translator.engines.triton_text import TextSignature
from antiphon_translator.engines.triton_tokens import TokensSignature
from antiphon_translator.engines.triton_vllm import VllmSignature
from tests.support.fake_triton import ENSEMBLE, LLM_API, TOKENS, VLLM, FakeTriton, Kind


@pytest.mark.parametrize(
    ("kind", "signature"),
    [(TOKENS, TokensSignature), (ENSEMBLE, TextSignature), (LLM_API, TextSignature), (VLLM, VllmSignature)],
)
def test_model_kind_is_detected_from_its_inputs(kind: Kind, signature: type) -> None:
    found = describe(read_config(FakeTriton(kind).config()))
    assert isinstance(found, signature)
    if kind is LLM_API:
        assert isinstance(found, TextSignature)
        assert found.names is LLM_API_NAMES


def test_model_without_known_inputs_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="none of the inputs input_ids, "):
        describe(replace(read_config(FakeTriton().config()), inputs={"image": "BYTES"}))
