"""The behaviour of every engine, on any model server. An engine's test module subclasses the suite and provides the
fixture `stage`.

A stage returns an engine whose next generations follow a play. A text engine encodes the ids of a play as characters,
and the suite decodes them, so that one suite covers engines of every level.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import fields, replace

import pytest

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Engine
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    GenerationRequest,
    Sampling,
    TextChunk,
    TokenChunk,
    TokenPrompt,
)
from antiphon_translator.parsing.segments import Text
from tests.support import pushed
from tests.support.engine_plays import Ending, Play, as_text, ids_in
from tests.support.prompts import prompt_at

Stage = Callable[[Play], Engine]

PROMPT_IDS = (11, 12, 13, 14)
REQUEST = GenerationRequest(
    request_id="resp_1",
    prompt=TokenPrompt(PROMPT_IDS),
    max_tokens=100,
    stop_ids=(2,),
    sampling=Sampling(temperature=0.5, top_p=1.0, seed=7),
)
SOON_S = 20.0
"""The time that an immediate answer may take on a busy machine."""


async def request_for(engine: Engine, request: GenerationRequest = REQUEST) -> GenerationRequest:
    """The request with its prompt converted to the engine's level."""
    await engine.controls()  # an engine may have to ask its server for its level
    return replace(request, prompt=prompt_at(engine.level, PROMPT_IDS, as_text(PROMPT_IDS)))


def ids_of(chunk: EngineChunk) -> list[int]:
    """The ids of a chunk of any level."""
    match chunk:
        case TokenChunk():
            return list(chunk.ids)
        case TextChunk():
            return ids_in(chunk.text)
        case ChatChunk():
            return ids_in("".join(segment.text for segment in chunk.segments if isinstance(segment, Text)))


async def collect(engine: Engine, request: GenerationRequest = REQUEST) -> list[list[int]]:
    """The ids of a whole generation, message by message."""
    messages: list[list[int]] = []
    async with aclosing(pushed.chunks(engine, await request_for(engine, request))) as batches:
        async for batch in batches:
            assert batch, "a batch is never empty"
            messages += [ids for chunk in batch if (ids := ids_of(chunk))]
    return messages


class EngineContract:
    """The behaviour that every engine must have."""

    async def test_ids_arrive_complete_and_in_order(self, stage: Stage) -> None:
        ids = [[number] for number in range(100, 160)]
        assert await collect(stage(Play(ids))) == ids

    async def test_messages_of_several_ids_stay_whole(self, stage: Stage) -> None:
        assert await collect(stage(Play([[5, 6, 7, 8], [9]]))) == [[5, 6, 7, 8], [9]]

    async def test_an_empty_generation_delivers_nothing(self, stage: Stage) -> None:
        assert await collect(stage(Play([]))) == []

    async def test_ids_arrive_before_the_generation_ends(self, stage: Stage) -> None:
        engine = stage(Play([[5]], Ending.SILENCE))
        async with aclosing(pushed.chunks(engine, await request_for(engine))) as batches:
            async with asyncio.timeout(SOON_S):
                batch = await anext(batches)
            assert ids_of(batch[0]) == [5]

    async def test_closing_the_stream_stops_the_generation_on_the_server(self, stage: Stage) -> None:
        play = Play([[5]], Ending.SILENCE)
        engine = stage(play)
        async with aclosing(pushed.chunks(engine, await request_for(engine))) as batches:
            await anext(batches)
        async with asyncio.timeout(SOON_S):
            await play.stopped.wait()

    async def test_cancelling_a_waiting_task_stops_the_generation(self, stage: Stage) -> None:
        play = Play([], Ending.SILENCE)
        waiting = asyncio.create_task(collect(stage(play)))
        async with asyncio.timeout(SOON_S):
            await play.begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(SOON_S):
            await play.stopped.wait()

    async def test_generate_returns_and_stops_when_deliver_returns_false(self, stage: Stage) -> None:
        play = Play([[5]], Ending.SILENCE)
        deliveries = pushed.Deliveries(most=1)
        engine = stage(play)
        async with asyncio.timeout(SOON_S):
            await engine.generate(await request_for(engine), deliveries, Flow())
            await play.stopped.wait()
        assert len(deliveries.received) == 1

    async def test_no_chunk_is_delivered_after_deliver_returns_false(self, stage: Stage) -> None:
        deliveries = pushed.Deliveries(most=1)
        play = Play([[number] for number in range(5, 25)], pause_s=0.001)
        engine = stage(play)
        await engine.generate(await request_for(engine), deliveries, Flow())
        assert len(deliveries.received) == 1

    async def test_an_error_in_deliver_is_raised_and_stops_the_generation(self, stage: Stage) -> None:
        play = Play([[5]], Ending.SILENCE)

        def deliver(chunks: Sequence[EngineChunk]) -> bool:
            raise ZeroDivisionError

        engine = stage(play)
        request = await request_for(engine)
        async with asyncio.timeout(SOON_S):
            with pytest.raises(ZeroDivisionError):
                await engine.generate(request, deliver, Flow())
            await play.stopped.wait()

    async def test_nothing_is_read_while_the_flow_is_paused(self, stage: Stage) -> None:
        ids = [[number] for number in range(100, 160)]
        flow, received, is_paused = Flow(), list[list[int]](), asyncio.Event()

        def deliver(chunks: Sequence[EngineChunk]) -> bool:
            received.extend(said for chunk in chunks if (said := ids_of(chunk)))
            if not is_paused.is_set():
                flow.pause(self)
                is_paused.set()
            return True

        engine = stage(Play(ids, pause_s=0.005))
        running = asyncio.create_task(engine.generate(await request_for(engine), deliver, flow))
        async with asyncio.timeout(SOON_S):
            await is_paused.wait()
            before = list(received)
            await asyncio.sleep(0.1)
            assert received == before
            flow.resume(self)
            await running
        assert received == ids

    async def test_cancelling_during_a_paused_flow_stops_the_generation(self, stage: Stage) -> None:
        play = Play([[5], [6]], Ending.SILENCE)
        flow, deliveries = Flow(), pushed.Deliveries()
        engine = stage(play)
        running = asyncio.create_task(engine.generate(await request_for(engine), deliveries, flow))
        async with asyncio.timeout(SOON_S):
            await deliveries.came.wait()
            flow.pause(self)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await play.stopped.wait()

    async def test_an_error_of_the_model_is_a_fault(self, stage: Stage) -> None:
        with pytest.raises(EngineFault):
            await collect(stage(Play([[5]], Ending.ERROR)))

    async def test_ids_before_an_error_are_delivered(self, stage: Stage) -> None:
        seen = []
        with pytest.raises(EngineFault):
            engine = stage(Play([[5], [6]], Ending.ERROR))
            async with aclosing(pushed.chunks(engine, await request_for(engine))) as batches:
                async for batch in batches:
                    seen += [number for chunk in batch for number in ids_of(chunk)]
        assert seen == [5, 6]

    async def test_a_lost_server_is_unavailable(self, stage: Stage) -> None:
        with pytest.raises(EngineUnavailable):
            await collect(stage(Play([[5]], Ending.LOST)))

    async def test_generations_run_side_by_side(self, stage: Stage) -> None:
        engine = stage(Play([[number] for number in range(5, 25)], pause_s=0.001))
        results = await asyncio.gather(*(collect(engine) for _ in range(8)))
        assert results == [[[number] for number in range(5, 25)]] * 8

    async def test_an_engine_can_be_used_again_after_an_error(self, stage: Stage) -> None:
        with pytest.raises(EngineFault):
            await collect(stage(Play([[5]], Ending.ERROR)))
        assert await collect(stage(Play([[6]]))) == [[6]]

    async def test_a_running_engine_is_ready(self, stage: Stage) -> None:
        await stage(Play([])).ready()

    async def test_the_common_sampling_controls_are_supported(self, stage: Stage) -> None:
        assert {"temperature", "top_p", "seed"} <= await stage(Play([])).controls()

    async def test_an_unsupported_sampling_control_is_rejected(self, stage: Stage) -> None:
        """An engine ignores no control. An engine that supports all controls has none to reject."""
        engine = stage(Play([[5]]))
        unnamed = {member.name for member in fields(Sampling)} - await engine.controls()
        for name in unnamed:
            with pytest.raises(EngineFault):
                await collect(engine, replace(REQUEST, sampling=Sampling(**{name: 1})))
