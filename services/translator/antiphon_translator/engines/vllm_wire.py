"""The wire format of vLLM's /inference/v1/generate: the body of a request, and the events of a stream as token ids.

vLLM sends an event for each output that has ids, the last of them with a finish reason. The end of an aborted
generation has no ids and is not sent at all, so a stream without a finish reason was broken off.

An event with the usage, and no choice, follows the one with the finish reason. Nothing is read behind the last id of an
answer, so that one is held back until the usage comes, which is at once. The count of cached tokens is in it only with
`--enable-prompt-tokens-details`; some releases leave out a count of 0 (0.32 does not).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.jsons import Object
from antiphon_translator.engines import chat_usage
from antiphon_translator.engines.finish_reasons import finish_reason_or_stop
from antiphon_translator.engines.stream_budget import PIECE_CHARS
from antiphon_translator.engines.triton_vllm import structured_outputs
from antiphon_translator.engines.unread import UnreadReport
from antiphon_translator.generation import (
    CACHE_SALT,
    Alternative,
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Sampling,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
    are_token_ids,
)

_SAMPLING = tuple(member.name for member in fields(Sampling))
CONTROLS = frozenset((*_SAMPLING, "guide", "text_guide", "ignore_eos", "logprobs", "top_logprobs", "lora", CACHE_SALT))
LOGPROBS_MAX = 20
"""vLLM's default for `--max-logprobs`."""
_ID_PREFIX = "token_id:"


def body(request: GenerationRequest, model: str) -> Object:
    """The body of POST /inference/v1/generate."""
    salted: Object = {} if request.cache_salt is None else {CACHE_SALT: request.cache_salt}
    return salted | {
        "request_id": request.request_id,
        "model": request.lora or model,
        "token_ids": list(request.prompt_as(TokenPrompt).ids),
        "sampling_params": _sampling_params(request),
        "stream": True,
        "stream_options": {"include_usage": True},
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

    def __init__(self, request: GenerationRequest, unread: UnreadReport) -> None:
        self.is_complete = False
        self.content_chars = 0
        self._top = request.top_logprobs
        self._unread = unread
        self._last: TokenChunk | None = None
        """The chunk with the finish reason, until the usage has come."""

    def read(self, event: Object) -> TokenChunk | None:
        """Returns the ids of an event; those of the last one with the usage that follows it. EngineUnavailable: the
        generation was aborted. EngineFault: the event cannot be read, or has an unknown finish reason."""
        try:
            choices = event["choices"]
            if not choices:
                return self._take_last(event.get("usage"))
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
        chunk = TokenChunk(ids, finish=finish, logprobs=logprobs)
        if finish is not None:
            self._last = chunk
            return None
        return chunk if ids else None

    def note_done(self) -> None:
        """Nothing: vLLM ends the stream of an aborted generation in the same way."""

    def finish(self) -> TokenChunk | None:
        """The last chunk of a server that sent no usage."""
        return self._take_last(None)

    def _take_last(self, usage: object) -> TokenChunk | None:
        """The last chunk, with what the usage has of the cache."""
        last, self._last = self._last, None
        known = chat_usage.merge_usage(None, usage, self._unread) if usage is not None else None
        if last is None or known is None or known.cached_tokens is None:
            return last
        return replace(last, facts=EngineFacts(known.cached_tokens))

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
