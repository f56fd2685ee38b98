"""A translator that serves turns with `prewarm`: the engine reads the prompt, and the response has no output.

The engine generates one token, which is dropped: no engine reads a prompt without generating. Endpoint, salt and prompt
are those of any other turn, so the next turn finds the prompt in the cache. The usage counts what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from antiphon_core import events, offload, response
from antiphon_core.clock import Clock
from antiphon_core.errors import InvalidRequest
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import NO_ITEMS, Batch, EndedTurn, Final, Model, Receive, Resume, Translator, Turn
from antiphon_core.response import error_of

_MARK = b'"prewarm":true'
_ONE_TOKEN: Object = {"max_output_tokens": 1, "store": True}
"""`store`: a prompt that is warmed up is no one-shot request, whose blocks leave the cache first."""
_LEFT_OUT = ("context_management", "text", "stop", "include", "top_logprobs")
"""Parameters that do not change the prompt, and that one token cannot satisfy."""


class PrewarmingTranslator:
    """A Translator (antiphon_core.ports.translator) that wraps another one."""

    def __init__(self, inner: Translator, *, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        asked = None
        if _MARK in turn.request:
            asked = await offload.run(partial(_parameters_of, turn), size_bytes=len(turn.request))
        if asked is None:
            await self._inner.generate(turn, receive, flow=flow, resume=resume, checkpoints=checkpoints)
            return
        read = await self._read_prompt(turn, asked)
        first = resume.next_sequence if resume is not None else 0
        make = partial(_batches, turn, asked, read, now_s=self._clock.now_ms() // 1000, first=first)
        for batch in await offload.run(make, size_bytes=len(turn.request)):
            receive(batch)

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        return await self._inner.explain_cache(now, compared)

    async def count_tokens(self, turn: Turn) -> int:
        return await self._inner.count_tokens(turn)

    async def check(self, turn: Turn) -> None:
        await self._inner.check(turn)

    async def models(self) -> Sequence[Model]:
        return await self._inner.models()

    async def ready(self) -> None:
        await self._inner.ready()

    async def _read_prompt(self, turn: Turn, asked: Object) -> Final | None:
        """Has the engine read the prompt. None: without a user's message this model has no prompt. Raises the error of
        any other turn that fails."""
        parameters = {name: value for name, value in asked.items() if name not in _LEFT_OUT} | _ONE_TOKEN
        request = await offload.run(partial(dumps, parameters), size_bytes=len(turn.request))
        batches: list[Batch] = []
        try:
            await self._inner.generate(replace(turn, request=request), batches.append, flow=Flow())
        except InvalidRequest:
            if turn.history != NO_ITEMS or b'"user"' in turn.input:
                raise
            return None
        final, pause = batches[-1].final, batches[-1].pause
        if pause is not None:  # the one token was a call, which is dropped, too
            used = pause.used
            counts = response.usage(input_tokens=used.input_tokens, output_tokens=0, cached_tokens=used.cached_tokens)
            return Final(Status.COMPLETED, dumps({"usage": counts}), NO_ITEMS, lineage=pause.lineage)
        if final is not None and final.status is Status.FAILED:
            raise error_of(loads(final.body))
        return final


def _parameters_of(turn: Turn) -> Object | None:
    """The parameters of a turn that only warms up, without `prewarm`. None: it is another turn, whose tools for example
    have a member of this name."""
    asked: Object = loads(turn.request)
    options = dict(asked.get("prompt_cache_options") or {})
    return asked | {"prompt_cache_options": options} if options.pop("prewarm", None) is True else None


def _batches(turn: Turn, asked: Object, read: Final | None, *, now_s: int, first: int) -> list[Batch]:
    """The events of a response without output, from number `first` on, and its end."""
    created = response.skeleton(asked, response_id=turn.response_id, created_at=turn.created_at)
    ended = created | {"status": Status.COMPLETED.value, "completed_at": now_s, "usage": _usage(read)}
    opening: list[Object] = [{"type": kind, "response": created} for kind in (events.CREATED, events.IN_PROGRESS)]
    body, output_items = response.split(ended)
    lineage, times = (read.lineage, read.times) if read is not None else (b"", None)
    final = Final(Status.COMPLETED, body, output_items, lineage=lineage)
    final = replace(final, times=times) if times is not None else final
    begun = [event | {"sequence_number": number} for number, event in enumerate(opening)][first:]
    batches = [Batch(first, len(begun), b"".join(map(events.encode, begun)))] if begun else []
    completed = {"type": events.COMPLETED, "sequence_number": len(opening), "response": ended}
    return [*batches, Batch(len(opening), 1, events.encode(completed), final)]


def _usage(read: Final | None) -> Object:
    """The tokens that the engine read. The one that it generated is not part of the response."""
    given: Object = (loads(read.body).get("usage") if read is not None else None) or {}
    details = given.get("input_tokens_details") or {"cached_tokens": 0, "cache_write_tokens": 0}
    tokens = given.get("input_tokens", 0)
    return response.usage(input_tokens=tokens, output_tokens=0) | {"input_tokens_details": details}
