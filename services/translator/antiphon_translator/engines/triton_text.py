"""The text-level models of TensorRT-LLM on Triton: `ensemble`, `tensorrt_llm_bls` and the LLM-API model.

They differ in the names of their inputs, in whether a message holds the new text or all of it, and in what they report
at the end: a finish reason (LLM API), or token counts (the others), from which the finish reason follows. Their own
search for stop words works on token ids and leaves the words in the text, so the text is searched here, too. They get
stop texts only with `stop_in_reasoning`, because they do not know where the answer begins.

`end_id` takes one id. A model with several, such as Llama 3, gets the others as stop words by their texts, which the
tokenizer of the server turns into these ids. The text has such a token only if the server does not skip special tokens.

BLS does not pass a cancellation on: a cancelled generation may run on to its end.

The ensemble detokenizes each message by itself, which loses characters that span several tokens and, with some
tokenizers, spaces. This cannot be repaired here. Serve `tensorrt_llm` to avoid it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines import images, triton_hints, triton_wire
from antiphon_translator.engines.finish_reasons import finish_reason_or_stop
from antiphon_translator.engines.text_growth import GrowingText, Growth
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_model import ADD_SPECIAL_TOKENS, TritonModel
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
from antiphon_translator.engines.usage_bounds import UsageBounds
from antiphon_translator.generation import FinishReason, GenerationRequest, Level, ReportedUsage, TextChunk, TextPrompt
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.parsing.stop_texts import StopTexts

PROMPT, TEXT = "text_input", "text_output"
_COUNTS = ("num_input_tokens", "num_output_tokens")
_FINISH = "finish_reason"
_FALSE = ("false", "0", "f", "n", "no")  # as TensorRT-LLM reads them; any other value is true
_END_ID = "end_id"
_NO_END_ID = -1
"""Without an `end_id`, the ensemble takes that of its own tokenizer."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the inputs of one kind of text-level model."""

    max_tokens: str
    stop: str
    streaming: str
    exclude_prompt: str
    images: str
    metrics: str
    reused_blocks: str
    controls: Mapping[str, tuple[str, ...]]


ENSEMBLE = Names(
    max_tokens="max_tokens",
    stop="stop_words",
    streaming="stream",
    exclude_prompt="exclude_input_in_output",
    images="image_url_input",
    metrics="return_perf_metrics",
    reused_blocks="kv_cache_reused_blocks",
    controls={
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "top_k": ("top_k",),
        "min_p": ("min_p",),
        "repetition_penalty": ("repetition_penalty",),
        "presence_penalty": ("presence_penalty",),
        "frequency_penalty": ("frequency_penalty",),
        "seed": ("seed", "random_seed"),
    },
)
LLM_API = Names(
    max_tokens="sampling_param_max_tokens",
    stop="sampling_param_stop",
    streaming="streaming",
    exclude_prompt="sampling_param_exclude_input_from_output",
    images="image_url",
    metrics="sampling_param_return_perf_metrics",
    reused_blocks="kv_cache_reused_block",
    controls={name: (f"sampling_param_{name}",) for name in ENSEMBLE.controls},
)


def engine(profile: ModelProfile, channels: TritonChannels) -> TritonEngine:
    """An engine for a text-level model of TensorRT-LLM."""
    return TritonEngine(profile, channels, describe, level=Level.TEXT)


def describe(model: TritonModel) -> TextSignature:
    """The signature in a configuration. EngineUnavailable: the model is of another kind."""
    names = next((names for names in (ENSEMBLE, LLM_API) if names.max_tokens in model.inputs), ENSEMBLE)
    missing = model.lacks((PROMPT, names.max_tokens), (TEXT,))
    if missing is not None:
        raise EngineUnavailable(
            f"The Triton model '{model.name}' is no text-level model of TensorRT-LLM: it has no {missing}."
        )
    if names is LLM_API:
        triton_hints.note_text_model(model.name, "TensorRT-LLM's LLM API")
    return TextSignature(model, names, _growth_of(model, names))


def _growth_of(model: TritonModel, names: Names) -> Growth:
    if names is LLM_API:
        return Growth.CUMULATIVE
    accumulates = model.parameters.get("accumulate_tokens", "").lower()
    if accumulates in ("true", "1"):
        return Growth.CUMULATIVE
    return Growth.DELTA if model.is_ensemble or accumulates in ("false", "0") else Growth.UNKNOWN


@dataclass(frozen=True, slots=True)
class TextSignature:
    """The signature of a text-level model. `growth` follows from the model's configuration."""

    model: TritonModel
    names: Names
    growth: Growth

    @property
    def level(self) -> Level:
        return Level.TEXT

    @property
    def controls(self) -> frozenset[str]:
        others = {
            "stop": True,
            "ignore_eos": _END_ID in self.model.inputs,
            "guide": takes_guides(self.model),
            "text_guide": takes_guides(self.model),
            "images": self.names.images in self.model.inputs,
            "lora": "lora_task_id" in self.model.inputs,
        }
        return named_controls(self.model, self.names.controls) | {name for name, has in others.items() if has}

    @property
    def counts_blocks(self) -> bool:
        return self.names.reused_blocks in self.model.outputs

    def request(self, request: GenerationRequest) -> Any:
        return triton_wire.build(self.model, request.request_id, self._tensors(request))

    def reader(self, request: GenerationRequest) -> TextReader:
        return TextReader(request, self.growth, self.names.reused_blocks)

    def _tensors(self, request: GenerationRequest) -> list[Tensor]:
        optional = [one(self.names.streaming, True), one(self.names.exclude_prompt, True)]
        optional += [one(f"return_{name}", True) for name in (*_COUNTS, _FINISH) if name in self.model.outputs]
        if request.block_tokens and self.counts_blocks:
            optional.append(one(self.names.metrics, True))
        if stop := (*request.server_stops, *request.stop_tokens):
            optional.append(row(self.names.stop, stop))
        if request.stop_ids or request.ignore_eos:
            optional.append(one(_END_ID, _NO_END_ID if request.ignore_eos else request.stop_ids[0]))
        tensors = [
            one(PROMPT, self._text(request.prompt_as(TextPrompt))),
            one(self.names.max_tokens, request.max_tokens),
            *(tensor for tensor in optional if tensor.name in self.model.inputs),
            *sampling_tensors(request.sampling, self.model, self.names.controls),
            *guide_tensors(request.guide, self.model),
            *lora_tensors(request.lora, self.model),
        ]
        if request.top_logprobs is not None:
            raise unsupported_error(self.model, "logprobs")
        return tensors + self._image_tensors(request)

    def _text(self, prompt: TextPrompt) -> str:
        """The text to send. The LLM API adds a BOS token, and so does an ensemble by default. The steps of a
        `tensorrt_llm_bls` are not known: it gets the whole text."""
        given = self.model.parameters.get(ADD_SPECIAL_TOKENS, "" if self.names is LLM_API else "false")
        return prompt.text if given.lower() in _FALSE else prompt.without_added

    def _image_tensors(self, request: GenerationRequest) -> list[Tensor]:
        shown = request.prompt_as(TextPrompt).images
        if not shown:
            return []
        if self.names.images not in self.model.inputs:
            raise unsupported_error(self.model, "images")
        return [row(self.names.images, [images.data_url(image) for image in shown])]


class TextReader(Reader):
    """Reads text, finish reason and token counts from responses. Cuts the text off at a stop text or stop token.
    `reused_blocks` is the output with the number of cached blocks."""

    def __init__(self, request: GenerationRequest, growth: Growth, reused_blocks: str = ENSEMBLE.reused_blocks) -> None:
        self.is_complete = False
        self._outputs = Outputs()
        self._text = GrowingText(growth)
        self._stop = StopTexts((*request.server_stops, *request.stop_tokens))
        self._stop_tokens = frozenset(request.stop_tokens)
        self._max_tokens = request.max_tokens
        self._bounds = UsageBounds.of_text(request)
        self._reason = ""
        self._input_tokens: int | None = None
        self._output_tokens: int | None = None
        self._reused_blocks, self._block_tokens = reused_blocks, request.block_tokens
        self._cached_tokens: int | None = None

    def read(self, response: Any) -> TextChunk | None:
        message = None if self._reason else self._outputs.text(response, TEXT)  # no text counts after the finish reason
        self._read_outcome(response)
        if not message:
            return None
        text = self._stop.feed(self._text.feed(message))
        if self._stop.is_matched:
            self.is_complete = self.is_complete or self._stop.found in self._stop_tokens
            return TextChunk(text=text, finish=FinishReason.STOP, usage=self._usage())
        return TextChunk(text=text) if text else None

    def finish(self) -> TextChunk:
        text = self._stop.feed(self._text.finish(cut_off=self._finish_reason() is FinishReason.LENGTH))
        if not self._stop.is_matched:
            text += self._stop.finish()
        return TextChunk(text=text, finish=self._finish_reason(), usage=self._usage())

    def _read_outcome(self, response: Any) -> None:
        """Reads token counts and finish reason."""
        inputs, outputs = (self._outputs.numbers(response, name) for name in _COUNTS)
        if inputs:
            self._input_tokens = inputs[0]
        if outputs:
            self._output_tokens = (self._output_tokens or 0) + outputs[0]
            self.is_complete = self._output_tokens >= self._max_tokens
        if self._block_tokens:
            blocks = self._outputs.count(response, self._reused_blocks)
            self._cached_tokens = self._cached_tokens if blocks is None else blocks * self._block_tokens
        reason = (self._outputs.text(response, _FINISH) or b"").decode("utf-8", "replace")
        if reason not in ("", "None"):
            self._reason, self.is_complete = reason, True

    def _usage(self) -> ReportedUsage | None:
        counts = self._input_tokens, self._output_tokens
        if None in counts:
            return None if self._cached_tokens is None else ReportedUsage(cached_tokens=self._cached_tokens)
        return self._bounds.plausible(ReportedUsage(*counts, cached_tokens=self._cached_tokens))

    def _finish_reason(self) -> FinishReason | None:
        """The model's finish reason, else the one that its token count implies; None where the model sends neither."""
        if self._stop.is_matched:
            return FinishReason.STOP
        if self._reason:
            return finish_reason_or_stop(self._reason)
        if self._output_tokens is None:
            return None
        return FinishReason.LENGTH if self._output_tokens >= self._max_tokens else FinishReason.STOP
