"""What a served `tensorrt_llm` model can be told: read once from the model's own configuration on the server.

Releases differ in the inputs that they have, and an input that a model does not declare fails the whole request. So
nothing is sent but what the configuration lists, under the name it has there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import EngineUnavailable

# Where each member of generation.Sampling goes; the first name that the model declares is used, older names last.
CONTROL_INPUTS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("runtime_top_p",),
    "top_k": ("runtime_top_k",),
    "repetition_penalty": ("repetition_penalty",),
    "presence_penalty": ("presence_penalty",),
    "frequency_penalty": ("frequency_penalty",),
    "seed": ("seed", "random_seed"),
}

_REQUIRED_INPUTS = ("input_ids", "input_lengths", "request_output_len")
_REQUIRED_OUTPUTS = ("output_ids", "sequence_length")


@dataclass(frozen=True, slots=True)
class TritonModel:
    """One model's signature. `inputs` maps names to Triton's data types, such as INT32."""

    name: str
    batched: bool
    inputs: Mapping[str, str]

    @property
    def controls(self) -> frozenset[str]:
        """The members of Sampling that the model takes."""
        return frozenset(name for name in CONTROL_INPUTS if self.input_of(name) is not None)

    def input_of(self, control: str) -> str | None:
        """The input that carries a member of Sampling."""
        return next((name for name in CONTROL_INPUTS[control] if name in self.inputs), None)


def read_config(config: Any) -> TritonModel:
    """The signature in a ModelConfig message. EngineUnavailable: the model is not one to stream token ids from."""
    declared = {one.name: _data_type(config, one) for one in config.input}
    outputs = {one.name for one in config.output}
    missing = [name for name in _REQUIRED_INPUTS if name not in declared]
    missing += [name for name in _REQUIRED_OUTPUTS if name not in outputs]
    if missing:
        raise EngineUnavailable(
            f"The Triton model '{config.name}' is not a token-level tensorrt_llm model: it has no {missing[0]}."
        )
    if not config.model_transaction_policy.decoupled:
        raise EngineUnavailable(
            f"The Triton model '{config.name}' cannot stream: set model_transaction_policy {{ decoupled: true }}."
        )
    return TritonModel(name=config.name, batched=config.max_batch_size > 0, inputs=declared)


def _data_type(config: Any, one: Any) -> str:
    names = type(config).DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_number
    return str(names[one.data_type].name).removeprefix("TYPE_")
