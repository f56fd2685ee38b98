"""The interface of a signature: how to write requests to one kind of Triton model, and how to read its responses.

triton_tokens.py, triton_text.py and triton_vllm.py have the signatures, and triton_stream.py uses them. A signature
does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from antiphon_core.errors import EngineFault
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_wire import Tensor, one
from antiphon_translator.generation import EngineChunk, GenerationRequest, Guide, Level, Sampling

GREEDY_TOP_K = 1
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
"""The members of Sampling that also change which token is the likeliest."""
GUIDE_TYPE, GUIDE = "guided_decoding_guide_type", "guided_decoding_guide"


class Reader(Protocol):
    """Reads the responses of one generation. Its classes inherit that no message repeats another."""

    is_complete: bool
    """Whether only the end of the stream is still to come."""

    def read_repeated(self, message: bytes) -> EngineChunk | None:
        """Reads a message that repeats an earlier one, without parsing it. None if it has to be parsed."""
        return None

    def learn(self, message: bytes, chunk: EngineChunk) -> None:
        """Learns the form of a message that has this chunk and is not the final one, for `read_repeated`."""
        return

    def read(self, response: Any) -> EngineChunk | None:
        """Reads a ModelInferResponse. A chunk with `finish` is the last one; messages that the server sends after it
        are ignored. EngineFault: the response cannot be read."""

    def finish(self) -> EngineChunk | None:
        """Returns the last chunk: text that was held back, finish reason and usage. None if there is nothing."""


class Signature(Protocol):
    """The signature of one model."""

    @property
    def level(self) -> Level: ...

    @property
    def controls(self) -> frozenset[str]:
        """The controls that the model supports, named as in `engines.base.Engine.controls`."""

    @property
    def counts_blocks(self) -> bool:
        """Whether the model reports cached tokens in blocks, whose size must be known."""

    def request(self, request: GenerationRequest) -> Any:
        """The ModelInferRequest of a generation. EngineFault: the model has no input for a part of the request."""

    def reader(self, request: GenerationRequest) -> Reader: ...


Describe = Callable[[TritonModel], Signature]
"""Reads a model's configuration. EngineUnavailable: the model is of another kind."""


def named_controls(model: TritonModel, inputs: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The members of Sampling that a model takes. `inputs` maps each member to the names of its input, newest first."""
    return frozenset(control for control, names in inputs.items() if model.first_of(names) is not None)


def sampling_tensors(sampling: Sampling, model: TritonModel, inputs: Mapping[str, Sequence[str]]) -> list[Tensor]:
    """The tensors for the members of a sampling that are set. EngineFault: the model has no input for one."""
    tensors = []
    for control, value in set_controls(sampling).items():
        name = model.first_of(inputs[control])
        if name is None:
            raise unsupported_error(model, control)
        tensors.append(one(name, value))
    return tensors


def set_controls(sampling: Sampling) -> dict[str, float]:
    """The members of a sampling that are set. Temperature 0 becomes top_k 1 (greedy sampling) with the penalties."""
    is_greedy = sampling.temperature == 0
    names = PENALTIES if is_greedy else tuple(Sampling.__dataclass_fields__)
    members = {name: value for name in names if (value := getattr(sampling, name)) is not None}
    return {"top_k": GREEDY_TOP_K, **members} if is_greedy else members


def guide_tensors(guide: Guide | None, model: TritonModel) -> list[Tensor]:
    """TensorRT-LLM's inputs for a guide."""
    if guide is None:
        return []
    if not takes_guides(model):
        raise unsupported_error(model, "guide")
    return [one(GUIDE_TYPE, guide.kind.value), one(GUIDE, guide.text)]


def takes_guides(model: TritonModel) -> bool:
    return GUIDE_TYPE in model.inputs and GUIDE in model.inputs


def lora_tensors(lora: str | None, model: TritonModel) -> list[Tensor]:
    """TensorRT-LLM's input for an adapter: a task id, so the name must be a number."""
    if lora is None:
        return []
    if "lora_task_id" not in model.inputs:
        raise unsupported_error(model, "lora")
    if not lora.isdecimal():
        raise EngineFault(f"The adapter '{lora}' of the Triton model '{model.name}' must be a number, a LoRA task id.")
    return [one("lora_task_id", int(lora))]


def unsupported_error(model: TritonModel, control: str) -> EngineFault:
    """The error for a request that sets a control that the model lacks."""
    return EngineFault(f"The Triton model '{model.name}' has no input for {control}.")
