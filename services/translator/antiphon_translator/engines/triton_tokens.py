"""The token-level model of TensorRT-LLM (`tensorrt_llm`) on Triton: ids in, ids out.

Stop texts are not sent to the model, because many sequences of ids write the same text. The pipeline finds them in the
decoded text and ends the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_translator.engines import triton_facts, triton_wire
from antiphon_translator.engines.finish_reasons import finish_reason_or_stop
from antiphon_translator.engines.repeated_messages import RepeatedMessages
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_facts import FactsReader
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_signature import (
    Reader,
    guide_tensors,
    lora_tensors,
    named_controls,
    sampling_tensors,
    takes_guides,
    unsupported_error,
)
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.engines.triton_wire import Outputs, Tensor, one, row
from antiphon_translator.generation import (
    CACHE_SALT,
    RETENTION,
    Alternative,
    EngineChunk,
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Level,
    Retention,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
    are_token_ids,
)
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.models.tenant_isolation import misconfigured_error

# Where each member of generation.Sampling goes; the first name that the model declares is used, older names last.
CONTROL_INPUTS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("runtime_top_p",),
    "top_k": ("runtime_top_k",),
    "min_p": ("min_p",),
    "repetition_penalty": ("repetition_penalty",),
    "presence_penalty": ("presence_penalty",),
    "frequency_penalty": ("frequency_penalty",),
    "seed": ("seed", "random_seed"),
}
_RANGES = "retention_token_range_"
_RETENTION_INPUTS = frozenset(f"{_RANGES}{name}" for name in ("starts", "ends", "priorities"))
_NO_END = -1
REQUIRED_INPUTS = ("input_ids", "input_lengths", "request_output_len")
_REQUIRED_OUTPUTS = ("output_ids", "sequence_length")
_FINISH_OUT = "finish_reason"  # not TensorRT-LLM's own: the models of antiphon_tokens have it
_TOP_IN, _TOP_OUT = "top_log_probs", ("top_log_prob_ids", "top_log_prob_values")
_LOGPROBS_IN, _LOGPROBS_OUT = "return_log_probs", "output_log_probs"


def engine(profile: ModelProfile, channels: TritonChannels) -> TritonEngine:
    """An engine for a `tensorrt_llm` model."""
    return TritonEngine(profile, channels, describe, level=Level.TOKENS)


def describe(model: TritonModel) -> TokensSignature:
    """The signature in a configuration. EngineUnavailable: the model does not stream token ids."""
    missing = model.lacks(REQUIRED_INPUTS, _REQUIRED_OUTPUTS)
    if missing is not None:
        raise EngineUnavailable(
            f"The Triton model '{model.name}' is not a token-level tensorrt_llm model: it has no {missing}."
        )
    return TokensSignature(model)


@dataclass(frozen=True, slots=True)
class TokensSignature:
    """The signature of `tensorrt_llm`, in the C++ and the Python backend alike."""

    model: TritonModel

    @property
    def level(self) -> Level:
        return Level.TOKENS

    @property
    def controls(self) -> frozenset[str]:
        others = {
            "guide": takes_guides(self.model),
            "text_guide": takes_guides(self.model),
            "top_logprobs": _TOP_IN in self.model.inputs and self.model.outputs >= {*_TOP_OUT},
            "logprobs": _LOGPROBS_IN in self.model.inputs and _LOGPROBS_OUT in self.model.outputs,
            "lora": "lora_task_id" in self.model.inputs,
            CACHE_SALT: CACHE_SALT in self.model.inputs,
            RETENTION: self.model.inputs.keys() >= _RETENTION_INPUTS,
            "ignore_eos": True,  # without an `end_id` nothing but the length ends a generation
        }
        return named_controls(self.model, CONTROL_INPUTS) | {name for name, has in others.items() if has}

    @property
    def counts_blocks(self) -> bool:
        return triton_facts.counts_blocks(self.model)

    def request(self, request: GenerationRequest) -> Any:
        return triton_wire.build(self.model, request.request_id, self._tensors(request))

    def reader(self, request: GenerationRequest) -> TokensReader:
        return TokensReader(request, has_facts=triton_facts.can_be_asked(self.model))

    def _tensors(self, request: GenerationRequest) -> list[Tensor]:
        optional = [one("streaming", True), one("exclude_input_in_output", True), *_stop_tensors(request.stop_ids)]
        prompt_ids = request.prompt_as(TokenPrompt).ids
        tensors = [
            row("input_ids", prompt_ids),
            one("input_lengths", len(prompt_ids)),
            one("request_output_len", request.max_tokens),
            *(tensor for tensor in optional if tensor.name in self.model.inputs),
            *sampling_tensors(request.sampling, self.model, CONTROL_INPUTS),
            *guide_tensors(request.guide, self.model),
            *lora_tensors(request.lora, self.model),
            *self._cache_tensors(request),
        ]
        if request.top_logprobs is not None:
            if "logprobs" not in self.controls:
                raise unsupported_error(self.model, "logprobs")
            if request.top_logprobs and "top_logprobs" not in self.controls:
                raise unsupported_error(self.model, "top_logprobs")
            tensors.append(one(_LOGPROBS_IN, True))
            if request.top_logprobs:
                tensors.append(one(_TOP_IN, request.top_logprobs))
        if triton_facts.can_be_asked(self.model):
            tensors.append(one(triton_facts.ASKED_BY, True))
        return tensors

    def _cache_tensors(self, request: GenerationRequest) -> list[Tensor]:
        """The salt, which must not be left out, and hints for the KV cache and the queue where the model takes them.
        EngineMisconfigured: it takes no salt; another endpoint may."""
        if request.cache_salt is not None and CACHE_SALT not in self.model.inputs:
            raise misconfigured_error(self.model.name, f"it has no input for {CACHE_SALT}")
        given = {CACHE_SALT: request.cache_salt, "conversation_id": request.conversation, "priority": request.priority}
        tensors = [one(name, value) for name, value in given.items() if value is not None and name in self.model.inputs]
        if request.retention is not None and RETENTION in self.controls:
            wanted = _retention_tensors(request.retention)
            tensors += [tensor for tensor in wanted if tensor.name in self.model.inputs]
        return tensors


def _retention_tensors(retention: Retention) -> Iterator[Tensor]:
    """The ranges as rows of one length. No duration of the output is sent: the Python backend of TensorRT-LLM passes it
    on in a wrong type."""
    ranges = retention.ranges
    yield row(f"{_RANGES}starts", [each.start for each in ranges])
    yield row(f"{_RANGES}ends", [_NO_END if each.end is None else each.end for each in ranges])
    yield row(f"{_RANGES}priorities", [each.priority for each in ranges])
    if any(each.duration_ms is not None for each in ranges):
        durations = [_NO_END if each.duration_ms is None else each.duration_ms for each in ranges]
        yield row(f"{_RANGES}durations_ms", durations)
    yield one("retention_decode_priority", retention.output_priority)


def _stop_tensors(stop_ids: Sequence[int]) -> list[Tensor]:
    """`end_id` takes one id. The others become stop words of one id each: all ids, then the end of each word."""
    if not stop_ids:
        return []
    end_id, *others = stop_ids
    tensors = [one("end_id", end_id)]
    if others:
        tensors.append(Tensor("stop_words_list", (*others, *range(1, len(others) + 1)), (2, len(others))))
    return tensors


class TokensReader(Reader):
    """Reads token ids, log probabilities and facts of the request from responses. `has_facts`: the model was asked for
    them."""

    def __init__(self, request: GenerationRequest, *, has_facts: bool = False) -> None:
        self.is_complete = False
        self._outputs = Outputs()
        self._left = request.max_tokens
        self._stop_ids = frozenset(request.stop_ids)
        self._wants_logprobs = request.top_logprobs is not None
        self._top = request.top_logprobs or 0
        self._facts = FactsReader(self._outputs, block_tokens=request.block_tokens) if has_facts else None
        self._repeated = RepeatedMessages()

    def read_repeated(self, message: bytes) -> TokenChunk | None:
        ids = self._repeated.ids_in(message)
        return self._chunk(ids) if ids is not None else None

    def learn(self, message: bytes, chunk: EngineChunk) -> None:
        if isinstance(chunk, TokenChunk) and not (chunk.logprobs or chunk.facts or chunk.finish):
            self._repeated.learn(message, chunk.ids, self._read_ids)

    def read(self, response: Any) -> TokenChunk | None:
        if not response.outputs:  # an empty final response
            return None
        ids = self._new_ids(response)
        finish = self._finish_reason(response)
        facts = self._facts.read(response) if self._facts is not None else None
        if not ids and finish is None and facts is None:
            return None
        if not are_token_ids(ids):
            raise triton_wire.unreadable()
        logprobs = self._logprobs(response, ids) if self._wants_logprobs else ()
        return self._chunk(ids, finish, logprobs, facts)

    def _new_ids(self, response: Any) -> list[int]:
        """The new ids of a response. EngineFault: it cannot be read."""
        ids = self._outputs.numbers(response, "output_ids")
        length = self._outputs.numbers(response, "sequence_length")
        if ids is None or length is None or len(length) != 1:
            raise triton_wire.unreadable()
        if length[0] != len(ids):
            del ids[length[0] :]
        return ids

    def _read_ids(self, message: bytes) -> list[int] | None:
        """The new ids of a message; None if it cannot be read."""
        try:
            return self._new_ids(triton_wire.parse_response(message).infer_response)
        except EngineFault:
            return None

    def _chunk(
        self,
        ids: list[int],
        finish: FinishReason | None = None,
        logprobs: Sequence[TokenLogprob] = (),
        facts: EngineFacts | None = None,
    ) -> TokenChunk:
        """Counts new ids, and makes a chunk of them."""
        self._left -= len(ids)
        self.is_complete = finish is not None or self._left <= 0 or not self._stop_ids.isdisjoint(ids)
        return TokenChunk(ids, finish, logprobs, facts)

    def _finish_reason(self, response: Any) -> FinishReason | None:
        """The finish reason in a last response. Classic models have none: the ids say why a generation ended."""
        reason = self._outputs.text(response, _FINISH_OUT)
        return finish_reason_or_stop(reason.decode("utf-8", "replace")) if reason else None

    def finish(self) -> None:
        return None

    def _logprobs(self, response: Any, ids: Sequence[int]) -> tuple[TokenLogprob, ...]:
        """The log probabilities of the new ids: the last ones, because some releases repeat those of all ids so far."""
        numbers = self._outputs.numbers(response, _LOGPROBS_OUT, "f")
        if numbers is None or len(numbers) < len(ids):
            raise triton_wire.unreadable()
        chosen = numbers[-len(ids) :]
        if not self._top:
            return tuple(map(TokenLogprob, ids, chosen))
        return tuple(map(TokenLogprob, ids, chosen, self._alternatives(response, len(ids))))

    def _alternatives(self, response: Any, places: int) -> Iterator[tuple[Alternative, ...]]:
        """The likeliest tokens at each position, the same number at each."""
        ids, values = (self._outputs.numbers(response, name, form) for name, form in zip(_TOP_OUT, "if", strict=True))
        if ids is None or values is None or not len(ids) == len(values) == places * self._top:
            raise triton_wire.unreadable()
        found = list(map(Alternative, ids, values))
        return (tuple(found[first : first + self._top]) for first in range(0, len(found), self._top))
