"""A server in this process that takes and returns token ids over `/inference/v1/generate`, as vLLM does.

The events are those of vLLM: one for each message with ids, the last with a finish reason; no event for the end of an
aborted generation; then `[DONE]`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from antiphon_core.jsons import Object
from tests.support.engine_plays import Ending, Play
from tests.support.fake_chat import FakeChat, Step, event, served

PATH = "/inference/v1/generate"
DONE = b"data: [DONE]\n\n"
PROMPT_TOKENS = 4
"""The prompt's token count in the usage of a play."""


def ids_event(ids: Sequence[int], finish: str | None = None, logprobs: Object | None = None) -> bytes:
    """Returns one event of a stream."""
    choice = {"index": 0, "logprobs": logprobs, "finish_reason": finish, "token_ids": list(ids)}
    return event({"request_id": "generate-tokens-1", "choices": [choice], "usage": None})


def usage_event(prompt: int, total: int, cached: int | None) -> bytes:
    """Returns the event behind the last ids of a request with `stream_options.include_usage`."""
    details = None if cached is None else {"cached_tokens": cached}
    usage = {"prompt_tokens": prompt, "completion_tokens": total - prompt, "prompt_tokens_details": details}
    return event({"request_id": "generate-tokens-1", "choices": [], "usage": usage})


def scored(*entries: tuple[int, float, dict[int, float]]) -> Object:
    """Returns log probabilities in vLLM's form: for each token its own, and those of the alternatives."""
    return {"content": [_entry(token, logprob) | {"top_logprobs": _entries(top)} for token, logprob, top in entries]}


@dataclass
class FakeGenerate(FakeChat):
    """The behaviour of the server. A model of `compute` goes on until a stop id or `max_tokens`. After `lost_after` ids
    of such a generation the server closes the connection, after `aborted_after` ids it ends the stream without a
    reason. It reports `cached` tokens, if that is not None."""

    context_length: int | None = 4_096
    cached: int | None = None
    lost_after: int | None = None
    aborted_after: int | None = None

    def play(self, play: Play) -> None:
        self.begun, self.stopped = play.begun, play.stopped
        ends = play.ending is Ending.BY_ITSELF
        reasons: list[str | None] = [None] * len(play.messages)
        if ends and reasons:
            reasons[-1] = "stop"
        events = [ids_event(ids, reason) for ids, reason in zip(play.messages, reasons, strict=True)]
        # vLLM always generates at least one id; other servers of this kind may not.
        events += [ids_event((), "stop")] if ends and not events else []
        self.script = [step for each in events for step in (play.pause_s, each)]
        self.script = [
            *self.script,
            *([usage_event(PROMPT_TOKENS, PROMPT_TOKENS, self.cached), DONE] if ends else [play.ending]),
        ]

    def compute(self, next_id: Callable[[Sequence[int]], int]) -> None:
        """Makes the server a model that computes each id from all ids before it."""
        self.answer = partial(self._generated, next_id=next_id)

    def _generated(self, asked: Object, next_id: Callable[[Sequence[int]], int]) -> list[Step]:
        ids, params = list(asked["token_ids"]), asked["sampling_params"]
        script: list[Step] = []
        for count in range(1, params["max_tokens"] + 1):
            if count - 1 == self.lost_after:
                return [*script, Ending.LOST]
            if count - 1 == self.aborted_after:
                return [*script, DONE]
            ids.append(next_id(ids))
            is_stop = ids[-1] in params.get("stop_token_ids", ())
            reason = "stop" if is_stop else "length" if count == params["max_tokens"] else None
            script.append(ids_event(ids[-1:], reason))
            if reason is not None:
                break
        return [*script, usage_event(len(asked["token_ids"]), len(ids), self.cached), DONE]


@asynccontextmanager
async def fake_generate() -> AsyncIterator[FakeGenerate]:
    """Runs a fake on a free port of this machine."""
    fake = FakeGenerate()
    async with served(fake, PATH):
        yield fake


def _entry(token: int, logprob: float) -> dict[str, Any]:
    return {"token": f"token_id:{token}", "logprob": logprob, "bytes": None}


def _entries(top: dict[int, float]) -> list[dict[str, Any]]:
    return [_entry(token, logprob) for token, logprob in top.items()]
