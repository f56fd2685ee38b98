"""A scripted translator that can do what a real one does not do on demand: die, stall, fail in mid-stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from antiphon_core import events, response
from antiphon_core.errors import AntiphonError, ModelNotFound, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, EndedTurn, Final, Model, Receive, Resume, Turn

ITEM: Object = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
PART: Object = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


@dataclass
class ScriptedTranslator:
    """Answers every turn with `words`, one event per batch. After them `fault` is raised, or the turn hangs if `hang`
    was set when it began."""

    words: Sequence[str] = ("Hello", " there")
    fault: Exception | None = None
    hang: bool = False
    hangs_at_once: bool = False
    """Whether the translator hangs before its first batch."""
    unready: AntiphonError | None = None
    turns: list[Turn] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        asked = loads(turn.request)
        if asked["model"] != "m":
            raise ModelNotFound.of(asked["model"])
        self.turns.append(turn)
        hangs = self.hang
        if self.hangs_at_once:
            await asyncio.Event().wait()
        try:
            async for batch in self._play(turn, asked, hangs):
                if flow is not None:
                    await flow.wait_until_open()
                receive(batch)
                await asyncio.sleep(0)
        finally:
            self.closed.set()

    async def _play(self, turn: Turn, asked: Object, hangs: bool) -> AsyncGenerator[Batch, None]:
        body = response.skeleton(asked, response_id=turn.response_id, created_at=turn.created_at)
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        text = "".join(self.words)
        part = PART | {"text": text}
        item = ITEM | {"status": "completed", "content": [part]}
        opening: list[Object] = [
            {"type": events.CREATED, "response": body},
            {"type": events.IN_PROGRESS, "response": body},
            {"type": events.OUTPUT_ITEM_ADDED, "output_index": 0, "item": ITEM},
            {"type": events.CONTENT_PART_ADDED, "part": PART, **place},
            *({"type": events.OUTPUT_TEXT_DELTA, "delta": word, "logprobs": [], **place} for word in self.words),
        ]
        closing: list[Object] = [
            {"type": events.OUTPUT_TEXT_DONE, "text": text, "logprobs": [], **place},
            {"type": events.CONTENT_PART_DONE, "part": part, **place},
            {"type": events.OUTPUT_ITEM_DONE, "output_index": 0, "item": item},
        ]
        for number, event in enumerate(opening):
            yield _batch(number, event)
        if self.fault is not None:
            raise self.fault
        if hangs:
            await asyncio.Event().wait()
        for number, event in enumerate(closing, len(opening)):
            yield _batch(number, event)
        ended = body | {
            "status": "completed",
            "completed_at": turn.created_at,
            "output": [item],
            "usage": response.usage(input_tokens=3, output_tokens=len(self.words)),
        }
        yield _terminal(len(opening) + len(closing), ended)

    async def count_tokens(self, turn: Turn) -> int:
        return 3

    async def check(self, turn: Turn) -> None:
        pass

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        return b"{}"

    async def models(self) -> Sequence[Model]:
        return (Model(id="m", root="m", context_length=100, ready=True, created_at=1_700_000_000),)

    async def ready(self) -> None:
        if self.unready is not None:
            raise TranslatorUnavailable(str(self.unready))


def _batch(number: int, event: Object) -> Batch:
    return Batch(first_sequence=number, count=1, frames=events.encode(event | {"sequence_number": number}))


def _terminal(number: int, ended: Object) -> Batch:
    body, output_items = response.split(ended)
    frames = events.encode({"type": events.COMPLETED, "sequence_number": number, "response": ended})
    final = Final(status=Status.COMPLETED, body=body, output_items=output_items)
    return Batch(first_sequence=number, count=1, frames=frames, final=final)
