"""Prompts that are read in advance, behind a scripted engine: a model whose template leaves out reasoning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.flow import Flow
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Batch, Final, Turn
from antiphon_translator import prewarms
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine
from antiphon_translator.generation import (
    CACHE_SALT,
    FinishReason,
    GenerationRequest,
    Level,
    TextChunk,
    TokenChunk,
    TokenPrompt,
)
from antiphon_translator.placement import placement_of
from antiphon_translator.prewarms import LOWEST_PRIORITY, PrewarmBudgets
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support.reasoning_model import TOKENIZER, WEATHER, reasoning_model
from tests.support.served_models import message, turn
from tests.support.small_vocabulary import ids_of
from tests.support.waiting import WAIT_MAX_S, until

CLOCK = ManualClock(now_ms=1_700_000_123_456)
ANSWER = "An answer of many words. " * 40
THOUGHT = ("<think>", "The user wants many words.", "</think>", ANSWER, "<|im_end|>")
CALLING = ("<think>", "Look.", "</think>", "<tool_call>", '{"name": "get_weather", "arguments": {}}', "</tool_call>")
TREE = "resp_" + "a" * 16


class Engine(ScriptedEngine):
    """Answers turns at once. Prewarms end when `is_slow` is not set."""

    def __init__(self, *said: str) -> None:
        placement = placement_of("engine:8001")
        answer = TokenChunk(tuple(ids_of(TOKENIZER, *said)), placement=placement)
        super().__init__([Emit(answer)], controls=ALL_CONTROLS | {CACHE_SALT})
        self.is_slow = False
        self.is_busy = False
        self.prewarmed: list[GenerationRequest] = []
        self.cancelled = asyncio.Event()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        if not request.is_prewarm:
            await super().generate(request, deliver, flow)
            return
        self.prewarmed.append(request)
        if self.is_slow:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        if not self.is_busy:
            assert not deliver([TokenChunk((1,))]), "one token is enough"


async def wait_until_idle(service: TranslatorService) -> None:
    """Returns when nothing is read in advance."""
    while service._prewarms.tasks:
        await asyncio.wait(list(service._prewarms.tasks.values()))


def serving(engine: Engine, settings: TranslatorSettings | None = None, **changes: Any) -> TranslatorService:
    service = TranslatorService(settings or TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    served = replace(reasoning_model(), **({"can_reason": True, "prewarm_tokens_per_minute": 100_000} | changes))
    service.add(served, engine)
    return service


def first_turn(**request: Any) -> Turn:
    return replace(turn("Tell me.", **request), response_id=f"{TREE}{'0' * 32}", cache_salt="s")


def next_turn(before: Turn, final: Final) -> Turn:
    items = [*loads(before.input), *loads(final.output_items)]
    return replace(
        before,
        response_id=f"{TREE}{'1' * 32}",
        history=dumps(items),
        input=dumps([message("user", "And more?")]),
        lineages=[final.lineage],
    )


async def run(service: TranslatorService, given: Turn) -> Final:
    batches: list[Batch] = []
    await service.generate(given, batches.append)
    final = batches[-1].final
    assert final is not None
    return final


def ids(request: GenerationRequest) -> Sequence[int]:
    return list(request.prompt_as(TokenPrompt).ids)


async def test_next_prompt_is_read_behind_an_answer_whose_reasoning_the_template_leaves_out() -> None:
    engine = Engine(*THOUGHT)
    service = serving(engine, isolates_tenants=True)
    given = first_turn()
    final = await run(service, given)
    await until(lambda: len(engine.prewarmed) == 1, "the next prompt is read")
    (prewarm,) = engine.prewarmed
    await run(service, next_turn(given, final))
    first, second = engine.requests
    assert ids(second)[: len(ids(prewarm))] == ids(prewarm), "the beginning of the prompt that came"
    assert len(ids(second)) - len(ids(prewarm)) < 60, "all but what the user wrote"
    assert ANSWER.strip() in TOKENIZER.decode(ids(prewarm))
    assert "The user wants" not in TOKENIZER.decode(ids(prewarm))
    assert (prewarm.max_tokens, prewarm.priority) == (1, LOWEST_PRIORITY)
    assert prewarm.cache_salt == second.cache_salt == first.cache_salt is not None
    assert [hint.endpoint for hint in prewarm.placement] == [hint.endpoint for hint in second.placement]
    await service.close()


@pytest.mark.parametrize(
    ("said", "changes", "request_"),
    [
        (THOUGHT, {"prewarm_tokens_per_minute": 0}, {}),
        (THOUGHT, {"prewarm_tokens_per_minute": 500}, {}),
        (THOUGHT[2:], {"can_reason": False}, {}),
        (("<think>", "Hm.", "</think>", "Short.", "<|im_end|>"), {}, {}),
        (CALLING, {}, {"tools": [WEATHER]}),
        (THOUGHT, {}, {"store": False}),
        (THOUGHT, {"demotes_one_shots": False}, {"background": True}),
        (THOUGHT, {}, {"prompt_cache_options": {"mode": "explicit"}}),
    ],
    ids=[
        "off by default",
        "over the budget",
        "nothing is left out",
        "hardly anything is new",
        "a call waits",
        "nothing is stored",
        "in the background",
        "nothing is kept",
    ],
)
async def test_nothing_is_read_in_advance(said: Sequence[str], changes: Object, request_: Object) -> None:
    engine = Engine(*said)
    service = serving(engine, **changes)
    await run(service, first_turn(**request_))
    await wait_until_idle(service)
    assert engine.prewarmed == []
    await service.close()


async def test_turn_that_comes_ends_the_reading_of_its_prompt() -> None:
    engine = Engine(*THOUGHT)
    service = serving(engine)
    given, engine.is_slow = first_turn(), True
    final = await run(service, given)
    await until(lambda: len(engine.prewarmed) == 1, "the next prompt is read")
    await run(service, next_turn(given, final))
    await asyncio.wait_for(engine.cancelled.wait(), WAIT_MAX_S)
    await service.close()


async def test_stop_of_the_translator_waits_for_no_prompt() -> None:
    engine = Engine(*THOUGHT)
    service = serving(engine)
    engine.is_slow = True
    await run(service, first_turn())
    await until(lambda: len(engine.prewarmed) == 1, "the next prompt is read")
    await asyncio.wait_for(service.close(), WAIT_MAX_S)
    assert engine.cancelled.is_set()


async def test_turn_whose_next_prompt_is_read_counts_as_held_bytes() -> None:
    engine = Engine(*THOUGHT)
    service = serving(engine)
    engine.is_slow = True
    given = first_turn()
    await run(service, given)
    await until(lambda: len(engine.prewarmed) == 1, "the next prompt is read")
    assert service._turn_bytes._budget.held_bytes == given.size_bytes
    await service.close()
    assert service._turn_bytes._budget.held_bytes == 0


async def test_engine_that_takes_texts_has_no_prompt_read() -> None:
    engine = Engine()
    engine.level = Level.TEXT
    engine.script = [
        Emit(TextChunk("".join(THOUGHT[:-1]), placement=placement_of("engine:8001"), finish=FinishReason.STOP))
    ]
    service = serving(engine)
    await run(service, first_turn())
    await wait_until_idle(service)
    assert engine.prewarmed == []
    await service.close()


async def test_tokens_that_no_engine_began_to_read_are_given_back() -> None:
    engine = Engine(*THOUGHT)
    service = serving(engine, prewarm_tokens_per_minute=1_200)
    engine.is_busy = True
    for _ in range(3):
        await run(service, first_turn())
        await wait_until_idle(service)
    assert len(engine.prewarmed) == 3, "one alone takes more than half of the budget"
    await service.close()


async def test_prompt_of_a_tenant_without_tokens_is_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[Turn] = []
    monkeypatch.setattr(prewarms, "next_request", lambda turn, *_: rendered.append(turn))
    service = serving(Engine(*THOUGHT), prewarm_tokens_per_minute=prewarms.TOKENS_MIN)
    (served,) = (route.model for route in service._routes.values())
    for _ in range(2):
        await run(service, first_turn())
        await wait_until_idle(service)
        service._prewarms._budgets.take(first_turn().tenant, served, prewarms.TOKENS_MIN)
    assert len(rendered) == 1
    await service.close()


async def test_turn_of_another_tenant_gets_the_memory_of_a_prompt_that_is_read() -> None:
    engine = Engine(*THOUGHT)
    given = first_turn()
    service = serving(engine, TranslatorSettings(turns_bytes_max=given.size_bytes))
    engine.is_slow = True
    await run(service, given)
    await until(lambda: len(engine.prewarmed) == 1, "the next prompt is read")
    await run(service, replace(given, tenant="other", response_id=f"resp_{'b' * 48}"))
    assert len(engine.requests) == 2
    await asyncio.wait_for(engine.cancelled.wait(), WAIT_MAX_S)
    await service.close()


async def test_one_tenant_does_not_take_all_places() -> None:
    engine = Engine(*THOUGHT)
    service = serving(engine)
    engine.is_slow, most = True, prewarms.RUNNING_PER_TENANT_MAX
    for number in range(most + 2):
        tenant = "other" if number > most else "default"
        await run(service, replace(first_turn(), tenant=tenant, response_id=f"resp_{number:016}{'0' * 32}"))
    await until(lambda: len(engine.prewarmed) == most + 1, "one more for another tenant")
    assert len(service._prewarms.tasks) == most + 1
    await service.close()


def test_budget_of_a_tenant_is_full_again_after_a_minute() -> None:
    now_s = [0.0]
    budgets, served = PrewarmBudgets(monotonic_s=lambda: now_s[0]), reasoning_model()
    served = replace(served, prewarm_tokens_per_minute=600)
    assert [budgets.take("a", served, tokens) for tokens in (601, 400, 400)] == [False, True, False]
    assert budgets.take("b", served, 600)
    now_s[0] = 20.0
    assert budgets.take("a", served, 400)
    assert not budgets.take("a", served, 1)
