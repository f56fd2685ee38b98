"""The inputs, outputs and parameters of a served Triton model, read once from the model's own configuration.

Releases differ in the inputs that they have, and an input that a model does not declare fails the whole request. So
an engine sends only inputs that the configuration lists, under the names that they have there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from antiphon_core.errors import EngineUnavailable

ADD_SPECIAL_TOKENS = "add_special_tokens"
"""A parameter of TensorRT-LLM's preprocessing: whether its tokenizer adds a BOS token, for example."""


@dataclass(frozen=True, slots=True)
class TritonModel:
    """One model's configuration. `inputs` maps names to Triton's data types, such as INT32."""

    name: str
    is_batched: bool
    inputs: Mapping[str, str]
    outputs: frozenset[str] = frozenset()
    parameters: Mapping[str, str] = field(default_factory=dict)
    is_ensemble: bool = False
    steps: tuple[str, ...] = ()
    """The models that an ensemble consists of."""

    def with_steps(self, steps: Sequence[TritonModel]) -> TritonModel:
        """This ensemble with those parameters of its steps that decide how a prompt is encoded."""
        values = [step.parameters[ADD_SPECIAL_TOKENS] for step in steps if ADD_SPECIAL_TOKENS in step.parameters]
        return replace(self, parameters={**self.parameters, ADD_SPECIAL_TOKENS: values[0]}) if values else self

    def first_of(self, names: Sequence[str]) -> str | None:
        """The first of these inputs that the model declares; None if it declares none."""
        return next((name for name in names if name in self.inputs), None)

    def lacks(self, inputs: Sequence[str], outputs: Sequence[str]) -> str | None:
        """The first of these that the model does not declare."""
        missing = [name for name in inputs if name not in self.inputs]
        missing += [name for name in outputs if name not in self.outputs]
        return missing[0] if missing else None


def read_config(config: Any) -> TritonModel:
    """Reads a ModelConfig message. EngineUnavailable: the model cannot stream."""
    if not config.model_transaction_policy.decoupled and not config.HasField("ensemble_scheduling"):
        raise EngineUnavailable(
            f"The Triton model '{config.name}' cannot stream: set model_transaction_policy {{ decoupled: true }}."
        )
    return facts_of(config)


def facts_of(config: Any) -> TritonModel:
    """Reads a ModelConfig message, also of a model that cannot stream, as the steps of an ensemble."""
    return TritonModel(
        name=config.name,
        is_batched=config.max_batch_size > 0,
        inputs={one.name: _data_type(config, one) for one in config.input},
        outputs=frozenset(one.name for one in config.output),
        parameters={name: one.string_value for name, one in config.parameters.items()},
        is_ensemble=config.HasField("ensemble_scheduling"),
        steps=tuple(step.model_name for step in config.ensemble_scheduling.step),
    )


def _data_type(config: Any, one: Any) -> str:
    names = type(config).DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_number
    if one.data_type not in names:  # of a newer Triton; it matters only if a request needs this input
        return f"type {one.data_type}"
    # The configuration says STRING where the tensors of the protocol say BYTES.
    name = str(names[one.data_type].name).removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name
