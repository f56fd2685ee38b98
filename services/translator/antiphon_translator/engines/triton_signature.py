"""How one kind of Triton model is asked and how its answers are read: what the modules triton_*.py of this folder give
and triton_stream.py uses. Nothing in a signature does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from antiphon_core.errors import EngineFault
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_wire import Tensor, one
from antiphon_translator.generation import EngineChunk, GenerationRequest, Guide, Level, Sampling

GREEDY_TOP_K = 1
GUIDE_TYPE, GUIDE = "guided_decoding_guide_type", "guided_decoding_guide"


class Reader(Protocol):
    """Reads the responses of one generation."""

    @property
    def complete(self) -> bool:
        """The server has nothing left to say but that it is through."""

    def read(self, response: Any) -> EngineChunk | None:
        """Reads a ModelInferResponse. A chunk with `finish` is the last one; messages that the server sends after it
        are ignored. EngineFault: the response cannot be read."""

    def finish(self) -> EngineChunk | None:
        """The text that was held back, and facts that are known only at the end of the stream."""


class Signature(Protocol):
    """One model."""

    @property
    def level(self) -> Level: ...

    @property
    def controls(self) -> frozenset[str]:
        """As in engines.base.Engine."""

    def request(self, request: GenerationRequest) -> Any:
        """The ModelInferRequest of a generation. EngineFault: it asks for what the model cannot be told."""

    def reader(self, request: GenerationRequest) -> Reader: ...


Describe = Callable[[TritonModel], Signature]
"""Reads a configuration. EngineUnavailable: the model is of another kind."""


def named_controls(model: TritonModel, inputs: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The members of Sampling that a model takes; `inputs` says under which names it may have each, newest first."""
    return frozenset(control for control, names in inputs.items() if model.first_of(names) is not None)


def sampling_tensors(sampling: Sampling, model: TritonModel, inputs: Mapping[str, Sequence[str]]) -> list[Tensor]:
    """The members of a sampling that are to be sent."""
    tensors = []
    for control, value in chosen(sampling).items():
        name = model.first_of(inputs[control])
        if name is None:
            raise cannot(model, control)
        tensors.append(one(name, value))
    return tensors


def chosen(sampling: Sampling) -> dict[str, float]:
    """The members that are set. Temperature 0 is sent as what it means: the best token."""
    if sampling.temperature == 0:
        return {"top_k": GREEDY_TOP_K}
    members = ((name, getattr(sampling, name)) for name in Sampling.__dataclass_fields__)
    return {name: value for name, value in members if value is not None}


def guide_tensors(guide: Guide | None, model: TritonModel) -> list[Tensor]:
    """TensorRT-LLM's inputs for a guide."""
    if guide is None:
        return []
    if not takes_guides(model):
        raise cannot(model, "guide")
    return [one(GUIDE_TYPE, guide.kind.value), one(GUIDE, guide.text)]


def takes_guides(model: TritonModel) -> bool:
    return GUIDE_TYPE in model.inputs and GUIDE in model.inputs


def lora_tensors(lora: str | None, model: TritonModel) -> list[Tensor]:
    """TensorRT-LLM's input for an adapter: a task id, so the name must be a number."""
    if lora is None:
        return []
    if "lora_task_id" not in model.inputs:
        raise cannot(model, "lora")
    if not lora.isdecimal():
        raise EngineFault(f"The adapter '{lora}' of the Triton model '{model.name}' must be a number, a LoRA task id.")
    return [one("lora_task_id", int(lora))]


def cannot(model: TritonModel, control: str) -> EngineFault:
    """The error for a request that sets what is not among the controls."""
    return EngineFault(f"The Triton model '{model.name}' has no input for {control}.")
