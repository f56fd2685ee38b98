"""Detects the kind of a Triton model by the inputs that its configuration declares."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines import triton_text, triton_tokens, triton_vllm
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_signature import Describe, Signature
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.models.profiles import ModelProfile

# By an input that only this kind has. The first row whose input the model declares counts.
_KINDS: Mapping[str, Describe] = {
    "input_ids": triton_tokens.describe,
    triton_vllm.SAMPLING: triton_vllm.describe,
    triton_text.LLM_API.max_tokens: triton_text.describe,
    triton_text.ENSEMBLE.max_tokens: triton_text.describe,
}


def engine(profile: ModelProfile, channels: TritonChannels) -> TritonEngine:
    """An engine for a Triton model of any kind. Its level is known after a call of `controls`."""
    return TritonEngine(profile, channels, describe)


def describe(model: TritonModel) -> Signature:
    """The signature of a model. EngineUnavailable: the model is of an unknown kind."""
    for name, describe_kind in _KINDS.items():
        if name in model.inputs:
            return describe_kind(model)
    raise EngineUnavailable(f"The Triton model '{model.name}' has none of the inputs {', '.join(_KINDS)}.")
