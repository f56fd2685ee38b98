"""Turns that continue each other send the model the ids that it wrote, however a turn is run. The translator caches no
prompts, like one that has never seen the chain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from antiphon_core.jsons import Object
from antiphon_core.ports.store import TurnRequest
from antiphon_translator.engines.scripted import Emit, ScriptedEngine
from antiphon_translator.generation import TokenChunk
from tests.support.in_process import System, running
from tests.support.lineages import MODELS
from tests.support.prompts import ids_in
from tests.support.served_models import END_ID

TURNS = 3


async def stored(system: System, number: int, members: Object) -> Any:
    return await system.create(**members)


async def keyed(system: System, number: int, members: Object) -> Any:
    body = {"model": "m"} | members
    answer = await system.http.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": f"key {number}"})
    assert answer.status == 200, answer.body
    return answer.json


async def streamed(system: System, number: int, members: Object) -> Any:
    async with system.http.stream(model="m", **members) as events:
        return [event async for event in events][-1]["response"]


async def in_background(system: System, number: int, members: Object) -> Any:
    response_id = (await system.create(background=True, **members))["id"]
    followed = await system.http.get(f"/v1/responses/{response_id}?stream=true")  # to its end
    assert followed.events[-1]["type"] == "response.completed"
    return {"id": response_id}


@pytest.mark.parametrize("run", [stored, keyed, streamed, in_background])
async def test_a_prompt_extends_the_ids_of_the_turn_before(run: Callable[..., Awaitable[Any]]) -> None:
    served = MODELS["smollm2"].load(cache_bytes=0)
    written = [token_id for letter in "An answer" for token_id in served.tokenizer.encode(letter)]
    engine = ScriptedEngine([Emit(TokenChunk(written, placement="here")), Emit([END_ID])])
    async with running((served, engine), workers=1) as system:
        previous: Object = {}
        for number in range(TURNS):
            ended = await run(system, number, {"input": f"Question {number}"} | previous)
            previous = {"previous_response_id": ended["id"]}
        prompts = [list(ids_in(request)) for request in engine.requests]
        for before, after in pairwise(prompts):
            assert after[: len(before) + len(written)] == [*before, *written]
        assert [[hint.endpoint for hint in request.placement] for request in engine.requests] == [
            [],
            ["here"],
            ["here"],
        ]


async def unstored(system: System, number: int, members: Object) -> Any:
    return await system.create(store=False, **members)


@pytest.mark.parametrize("run", [stored, keyed, streamed, in_background, unstored])
async def test_a_resent_conversation_extends_the_ids_of_its_last_turn(run: Callable[..., Awaitable[Any]]) -> None:
    served = MODELS["smollm2"].load(cache_bytes=0)
    written = [token_id for letter in "An answer" for token_id in served.tokenizer.encode(letter)]
    engine = ScriptedEngine([Emit(TokenChunk(written, placement="here")), Emit([END_ID])])
    async with running((served, engine), workers=1) as system:
        said: list[Object] = []
        for number in range(TURNS):
            said.append({"role": "user", "content": f"Question {number}"})
            ended = await run(system, number, {"input": said})
            said.append({"role": "assistant", "content": "An answer"})
            if run is not unstored:
                read = await system.http.get(f"/v1/responses/{ended['id']}")
                assert read.json["previous_response_id"] is None
        prompts = [list(ids_in(request)) for request in engine.requests]
        for before, after in pairwise(prompts):
            assert after[: len(before) + len(written)] == [*before, *written]
        assert [[hint.endpoint for hint in request.placement] for request in engine.requests] == [
            [],
            ["here"],
            ["here"],
        ]


async def test_an_edge_that_remembers_nothing_encodes_unstored_turns_anew() -> None:
    served = MODELS["smollm2"].load(cache_bytes=0)
    engine = ScriptedEngine([Emit(TokenChunk(served.tokenizer.encode("An answer"), placement="here")), Emit([END_ID])])
    async with running((served, engine), remembered_lineages_s=0) as system:
        said: list[Object] = [{"role": "user", "content": "Question"}]
        await system.create(store=False, input=said)
        said += [{"role": "assistant", "content": "An answer"}, {"role": "user", "content": "Question"}]
        await system.create(store=False, input=said)
        assert not any(request.placement for request in engine.requests)


async def test_a_conversation_extends_the_ids_of_its_turns() -> None:
    served = MODELS["smollm2"].load(cache_bytes=0)
    written = [token_id for letter in "An answer" for token_id in served.tokenizer.encode(letter)]
    engine = ScriptedEngine([Emit(written), Emit([END_ID])])
    async with running((served, engine)) as system:
        conversation = (await system.http.post("/v1/conversations", {})).json["id"]
        for number in range(TURNS):
            await system.create(input=f"Question {number}", conversation=conversation)
        prompts = [list(ids_in(request)) for request in engine.requests]
        for before, after in pairwise(prompts):
            assert after[: len(before) + len(written)] == [*before, *written]


async def test_no_answer_to_a_client_has_a_lineage() -> None:
    served = MODELS["smollm2"].load()
    engine = ScriptedEngine([Emit(served.tokenizer.encode("An answer")), Emit([END_ID])])
    async with running((served, engine)) as system:
        made = await system.http.create(model="m", input="Question")
        response_id = made.json["id"]
        start = await system.store.begin_turn("default", TurnRequest(response_id, wants_lineage=True))
        (lineage,) = start.history.lineages
        read = await system.http.get(f"/v1/responses/{response_id}")
        assert lineage
        for answer in (made, read):
            assert b"lineage" not in answer.body
            assert lineage not in answer.body
