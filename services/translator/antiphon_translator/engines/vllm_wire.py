"""The wire format of vLLM's /inference/v1/generate: the body of a request, and the events of a stream as token ids.

vLLM sends an event for each output that has ids, the last of them with a finish reason. The end of an aborted
generation has no ids and is not sent at all, so a stream without a finish reason was broken off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.jsons import Object
from antiphon_translator.engines.finish_reasons import finish_reason_or_stop
from antiphon_translator.engines.stream_budget import PIECE_CHARS
from antiphon_translator.engines.triton_vllm import structured_outputs
from antiphon_translator.generation import (
    Alternative,
    FinishReason,
    GenerationRequest,
    Sampling,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
    are_token_ids,
)

_SAMPLING = tuple(member.name for member in fields(Sampling))
CONTROLS = frozenset((*_SAMPLING, "guide", "ignore_eos", "logprobs", "top_logprobs", "lora"))
LOGPROBS_MAX = 20
"""vLLM's default for `--max-logprobs`."""
_ID_PREFIX = "token_id:"


def body(request: GenerationRequest, model: str) -> Object:
    """The body of POST /inference/v1/generate."""
    return {
        "request_id": request.request_id,
        "model": request.lora or model,
        "token_ids": list(request.prompt_as(TokenPrompt).ids),
        "sampling_params": _sampling_params(request),
        "stream": True,
    }


def _sampling_params(request: GenerationRequest) -> Object:
    """vLLM's SamplingParams. With `detokenize` off the server makes no text, which nothing here reads."""
    chosen = {name: value for name in _SAMPLING if (value := getattr(request.sampling, name)) is not None}
    params: Object = {"max_tokens": request.max_tokens, "detokenize": False, **chosen}
    if request.stop_ids:
        params["stop_token_ids"] = list(request.stop_ids)
    if request.ignore_eos:
        params["ignore_eos"] = True
    if request.guide is not None:
        params["structured_outputs"] = structured_outputs(request.guide)
    if request.top_logprobs is not None:
        params["logprobs"] = _logprobs_asked(request.top_logprobs)
    return params


def _logprobs_asked(top: int) -> int:
    """One more than requested: the chosen token replaces the last alternative where it is not one of the likeliest."""
    return min(top + 1, LOGPROBS_MAX) if top else 0


class TokensReader:
    """Reads the events of one stream."""

    def __init__(self, request: GenerationRequest) -> None:
        self.is_complete = False
        self.content_chars = 0
        self._top = request.top_logprobs

    def read(self, event: Object) -> TokenChunk | None:
        """Returns the ids of an event. EngineUnavailable: the generation was aborted. EngineFault: the event cannot be
        read, or has an unknown finish reason."""
        try:
            choices = event["choices"]
            if not choices:  # an event with the usage
                return None
            (choice,) = choices
            if choice.get("index"):  # the request asked for one choice
                return None
            ids = [int(number) for number in choice.get("token_ids") or ()]
            if not are_token_ids(ids):
                raise ValueError("an id is negative or too large")
            finish = self._finish(choice.get("finish_reason"))
            logprobs = () if self._top is None else self._logprobs(choice.get("logprobs"), ids)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise EngineFault("The engine sent an event that cannot be read.") from error
        self.content_chars += PIECE_CHARS * len(ids)
        return TokenChunk(ids, finish=finish, logprobs=logprobs) if ids or finish is not None else None

    def note_done(self) -> None:
        """Nothing: vLLM ends the stream of an aborted generation in the same way."""

    def finish(self) -> None:
        return None

    def _finish(self, reason: str | None) -> FinishReason | None:
        if not reason:
            return None
        if reason == "abort":
            raise EngineUnavailable("The engine aborted the generation.")
        finish = finish_reason_or_stop(reason)
        self.is_complete = True
        return finish

    def _logprobs(self, given: Mapping[str, Any] | None, ids: Sequence[int]) -> tuple[TokenLogprob, ...]:
        """The log probability of each id. ValueError: the event has more or fewer of them."""
        entries = (given or {}).get("content") or ()
        pairs = zip(ids, entries, strict=True)
        return tuple(TokenLogprob(number, float(entry["logprob"]), self._likeliest(entry)) for number, entry in pairs)

    def _likeliest(self, entry: Mapping[str, Any]) -> tuple[Alternative, ...]:
        given = [_alternative(other) for other in entry.get("top_logprobs") or ()]
        given.sort(key=lambda other: other.logprob, reverse=True)
        return tuple(given[: self._top])


def _alternative(entry: Mapping[str, Any]) -> Alternative:
    """Reads a token that is written as `token_id:7`, because `detokenize` is off."""
    written = str(entry["token"])
    if not written.startswith(_ID_PREFIX):
        raise ValueError(written)
    return Alternative(int(written.removeprefix(_ID_PREFIX)), float(entry["logprob"]))
