"""A model of Triton's vLLM backend: text in, text out, and the sampling parameters as one JSON text.

The backend makes vLLM's SamplingParams from that JSON, and drops all of it at an unknown member, so only members that
every release knows are sent. The text includes special tokens, because calls and reasoning are marked with them. With
`stop_in_reasoning`, vLLM finds stop texts itself and cuts them off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.jsons import Object, dumps
from antiphon_translator.engines import images, triton_hints, triton_wire
from antiphon_translator.engines.finish_reasons import finish_reason_or_stop
from antiphon_translator.engines.text_growth import GrowingText, Growth
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_signature import Reader, set_controls, unsupported_error
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.engines.triton_text import PROMPT, TEXT
from antiphon_translator.engines.triton_wire import Outputs, Tensor, one, row
from antiphon_translator.engines.usage_bounds import UsageBounds
from antiphon_translator.generation import (
    Alternative,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    ReportedUsage,
    Sampling,
    TextChunk,
    TextPrompt,
    TokenLogprob,
)
from antiphon_translator.models.profiles import ModelProfile

SAMPLING = "sampling_parameters"
_LOGPROBS, _IMAGES = "return_logprobs", "image"
_RETURNED = ("return_finish_reason", "return_num_input_tokens", "return_num_output_tokens")


def engine(profile: ModelProfile, channels: TritonChannels) -> TritonEngine:
    """An engine for a model of the vLLM backend."""
    return TritonEngine(profile, channels, describe, level=Level.TEXT)


def describe(model: TritonModel) -> VllmSignature:
    """The signature in a configuration. EngineUnavailable: the model is of another kind."""
    missing = model.lacks((PROMPT, SAMPLING), (TEXT,))
    if missing is not None:
        raise EngineUnavailable(f"The Triton model '{model.name}' is not of the vLLM backend: it has no {missing}.")
    triton_hints.note_text_model(model.name, "Triton's vLLM backend")
    return VllmSignature(model)


@dataclass(frozen=True, slots=True)
class VllmSignature:
    """The signature of a model of the vLLM backend."""

    model: TritonModel

    @property
    def level(self) -> Level:
        return Level.TEXT

    @property
    def controls(self) -> frozenset[str]:
        optional = {"logprobs": _LOGPROBS, "images": _IMAGES}
        has = {control for control, name in optional.items() if name in self.model.inputs}
        has |= {"top_logprobs"} if "logprobs" in has else set()
        return frozenset((*Sampling.__dataclass_fields__, "guide", "text_guide", "stop", "ignore_eos", "lora", *has))

    @property
    def counts_blocks(self) -> bool:
        return False

    def request(self, request: GenerationRequest) -> Any:
        return triton_wire.build(self.model, request.request_id, self._tensors(request))

    def reader(self, request: GenerationRequest) -> VllmReader:
        return VllmReader(request)

    def _tensors(self, request: GenerationRequest) -> list[Tensor]:
        optional = [one(name, True) for name in ("stream", "exclude_input_in_output", *_RETURNED)]
        prompt = request.prompt_as(TextPrompt)
        tensors = [
            one(PROMPT, prompt.without_added),
            one(SAMPLING, dumps(sampling_parameters(request)).decode()),
            *(tensor for tensor in optional if tensor.name in self.model.inputs),
        ]
        if request.top_logprobs is not None:
            tensors.append(self._if_declared(one(_LOGPROBS, True), "logprobs"))
        if prompt.images:
            encoded = [images.base64(image) for image in prompt.images]
            tensors.append(self._if_declared(row(_IMAGES, encoded), "images"))
        return tensors

    def _if_declared(self, tensor: Tensor, control: str) -> Tensor:
        if tensor.name not in self.model.inputs:
            raise unsupported_error(self.model, control)
        return tensor


def sampling_parameters(request: GenerationRequest) -> Object:
    """vLLM's SamplingParams, and the backend's own `lora_name`."""
    parameters: Object = {
        "max_tokens": request.max_tokens,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        **set_controls(request.sampling),
    }
    if request.sampling.temperature == 0:
        parameters["temperature"] = 0
    if request.stop_ids:
        parameters["stop_token_ids"] = list(request.stop_ids)
    if request.server_stops:
        parameters["stop"] = list(request.server_stops)
    if request.ignore_eos:
        parameters["ignore_eos"] = True
    if request.top_logprobs is not None:
        parameters["logprobs"] = request.top_logprobs
    if request.guide is not None:
        # The backend wants JSON inside the JSON.
        parameters["structured_outputs"] = dumps(structured_outputs(request.guide)).decode()
    if request.lora is not None:
        parameters["lora_name"] = request.lora
    return parameters


def structured_outputs(guide: Guide) -> Object:
    """A guide as vLLM's StructuredOutputsParams."""
    match guide.kind:
        case GuideKind.JSON:
            return {"json_object": True}
        case GuideKind.JSON_SCHEMA:
            return {"json": guide.text}
        case GuideKind.REGEX:
            return {"regex": guide.text}
        case GuideKind.EBNF:
            return {"grammar": guide.text}


class VllmReader(Reader):
    """Reads text, log probabilities, finish reason and token counts from responses."""

    def __init__(self, request: GenerationRequest) -> None:
        self.is_complete = False
        self._outputs = Outputs()
        self._text = GrowingText(Growth.DELTA)
        self._top = request.top_logprobs
        self._bounds = UsageBounds.of_text(request)
        self._finish: FinishReason | None = None
        self._input_tokens = 0
        self._output_tokens = 0
        self._has_counts = False

    def read(self, response: Any) -> TextChunk | None:
        if self.is_complete:  # no text counts after the finish reason
            self._read_outcome(response)
            return None
        text = self._text.feed(self._outputs.text(response, TEXT) or b"")
        self._read_outcome(response)
        logprobs = self._logprobs(response)
        return TextChunk(text=text, logprobs=logprobs) if text or logprobs else None

    def finish(self) -> TextChunk:
        given = ReportedUsage(self._input_tokens, self._output_tokens)
        usage = self._bounds.plausible(given) if self._has_counts else None
        text = self._text.finish(cut_off=self._finish is FinishReason.LENGTH)
        return TextChunk(text=text, finish=self._finish, usage=usage)

    def _read_outcome(self, response: Any) -> None:
        """Reads token counts and finish reason."""
        inputs = self._outputs.numbers(response, "num_input_tokens", "I")
        outputs = self._outputs.numbers(response, "num_output_tokens", "I")
        if inputs and outputs:
            self._has_counts = True
            self._input_tokens = inputs[0]
            self._output_tokens += sum(outputs)
        reason = (self._outputs.text(response, "finish_reason") or b"").decode("utf-8", "replace")
        if reason not in ("", "None"):
            self.is_complete = True
            self._finish = finish_reason_or_stop(reason)

    def _logprobs(self, response: Any) -> tuple[TokenLogprob, ...]:
        if self._top is None:
            return ()
        raw = self._outputs.text(response, "logprobs")
        if not raw or raw == b"null":
            return ()
        try:
            return tuple([_token_logprob(entries, self._top) for entries in json.loads(raw)])  # it reads -Infinity
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            StopIteration,
            RecursionError,
            OverflowError,
        ) as error:
            raise EngineFault("The engine sent log probabilities that cannot be read.") from error


def _token_logprob(entries: Mapping[str, Mapping[str, float]], top: int) -> TokenLogprob:
    """Reads one position: {id: {logprob, rank, decoded_token}}, the chosen token first, then the likeliest ones."""
    token = next(iter(entries))
    ranked = sorted(entries.items(), key=lambda entry: entry[1]["rank"])
    likeliest = [Alternative(int(other), _number(entry)) for other, entry in ranked[:top] if entry["rank"] <= top]
    return TokenLogprob(int(token), _number(entries[token]), tuple(likeliest))


def _number(entry: Mapping[str, Any]) -> float:
    """The log probability of a token. TypeError, OverflowError: it is no number, or an integer beyond all floats."""
    found = entry["logprob"]
    if type(found) not in (int, float):
        raise TypeError(found)
    return float(found)
