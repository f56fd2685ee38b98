from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from openresponses_types.types import ResponseResource

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.errors import EngineUnavailable, InvalidRequest
from antiphon_core.fold import fold
from antiphon_core.jsons import dumps, loads
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.translator import Batch, Pause, Receive, Resume, Turn, Usage
from antiphon_edge import prewarming
from antiphon_edge.prewarming import PrewarmingTranslator
from tests.support.served_models import turn
from tests.support.translators import ScriptedTranslator

WARMING: dict[str, Any] = {"prompt_cache_options": {"prewarm": True, "mode": "explicit"}}


async def run(given: Turn, inner: ScriptedTranslator | None = None, resume: Resume | None = None) -> list[Batch]:
    batches: list[Batch] = []
    translator = PrewarmingTranslator(inner or ScriptedTranslator(), clock=SystemClock())
    await translator.generate(given, batches.append, resume=resume)
    return batches


async def test_prewarm_reads_the_prompt_and_has_no_output() -> None:
    inner = ScriptedTranslator()
    given = turn("Hi", store=False, text={"format": {"type": "json_object"}}, tools=[], **WARMING)
    batches = await run(given, inner)
    told = [event for batch in batches for event in events.decode(batch.frames)]
    assert [event["type"] for event in told] == [events.CREATED, events.IN_PROGRESS, events.COMPLETED]
    assert [event["sequence_number"] for event in told] == [0, 1, 2]
    ended, final = told[-1]["response"], batches[-1].final
    assert final is not None
    ResponseResource.model_validate(ended)
    assert fold(told) == ended == loads(final.body) | {"output": loads(final.output_items)}
    assert (ended["output"], ended["usage"]["input_tokens"], ended["usage"]["total_tokens"]) == ([], 3, 3)
    (asked,) = inner.turns
    assert asked == replace(given, request=asked.request), "the prompt is that of any other turn"
    assert loads(asked.request) == {
        "model": "m",
        "store": True,
        "tools": [],
        "max_output_tokens": 1,
        "prompt_cache_options": {"mode": "explicit"},
    }


async def test_prewarm_whose_one_token_is_a_call_counts_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pause(_self: ScriptedTranslator, _turn: Turn, receive: Receive, **_: object) -> None:
        receive(Batch(0, 1, b"", pause=Pause(b"[]", Usage(9, 1, cached_tokens=4), lineage=b"lineage")))

    monkeypatch.setattr(ScriptedTranslator, "generate", pause)
    final = (await run(turn("Hi", **WARMING)))[-1].final
    assert final is not None
    usage = loads(final.body)["usage"]
    counted = usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]
    assert (final.output_items, final.lineage, counted) == (b"[]", b"lineage", (9, 4, 0))


async def test_large_request_is_read_and_written_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[threading.Thread] = []

    def note(work: Callable[[Any], Any], given: Any) -> Any:
        if len(given if isinstance(given, bytes) else dumps(given)) > INLINE_BYTES_MAX:
            used.append(threading.current_thread())
        return work(given)

    monkeypatch.setattr(prewarming, "loads", partial(note, loads))
    monkeypatch.setattr(prewarming, "dumps", partial(note, dumps))
    await run(turn("Hi", instructions="x" * INLINE_BYTES_MAX, **WARMING))
    assert len(used) >= 2
    assert threading.current_thread() not in used


async def test_other_turns_are_passed_on_unchanged() -> None:
    inner = ScriptedTranslator()
    schema = {"type": "function", "name": "f", "parameters": {"prewarm": True}}
    for given in (turn("Hi", prompt_cache_options={"prewarm": False}), turn("Hi", tools=[schema])):
        assert len(await run(given, inner)) > 2
        assert inner.turns.pop() is given


async def test_prewarm_that_another_translator_continues_repeats_no_event() -> None:
    (last,) = await run(turn("Hi", **WARMING), resume=Resume(2))
    assert (last.first_sequence, last.count) == (2, 1)


async def test_prewarm_fails_as_any_other_turn() -> None:
    with pytest.raises(EngineUnavailable):
        await run(turn("Hi", **WARMING), ScriptedTranslator(fault=EngineUnavailable("down")))
    with pytest.raises(InvalidRequest):
        await run(turn("Hi", **WARMING), Rejecting())


async def test_instructions_alone_need_no_prompt() -> None:
    """Codex warms up before its user has written anything. Some templates render no prompt without a message."""
    given = replace(turn(instructions="Be brief.", **WARMING), input=dumps([]))
    last = (await run(given, Rejecting()))[-1]
    assert last.final is not None
    assert loads(last.final.body)["usage"]["total_tokens"] == 0


class Rejecting(ScriptedTranslator):
    async def generate(self, *_: Any, **__: Any) -> None:
        raise InvalidRequest("The template needs a message.", field="input")
