"""The behaviour of every engine, on any model server. An engine's test module subclasses the suite and gives the
fixture `stage`.

A stage returns an engine whose next generations follow a play. Engines of text say the ids of a play in characters,
which the suite reads back, so that one suite holds for engines of every level.
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
from antiphon_translator.generation import Chat, EngineChunk, GenerationRequest, Sampling
from antiphon_translator.parsing.segments import Text
from tests.support import pushed
from tests.support.engine_plays import Ending, Play, as_text, ids_in

Stage = Callable[[Play], Engine]

REQUEST = GenerationRequest(
    request_id="resp_1",
    prompt_ids=(11, 12, 13, 14),
    prompt_text=as_text((11, 12, 13, 14)),
    chat=Chat([{"role": "user", "content": as_text((11, 12, 13, 14))}]),
    max_tokens=100,
    stop_ids=(2,),
    sampling=Sampling(temperature=0.5, top_p=1.0, seed=7),
)
SOON_S = 20.0
"""The time that an immediate answer may take on a busy machine."""


def ids_of(chunk: EngineChunk) -> list[int]:
    """The ids that a chunk says, in whatever way."""
    texts = (segment.text for segment in chunk.segments if isinstance(segment, Text))
    return [*chunk.token_ids, *ids_in(chunk.text), *ids_in("".join(texts))]


async def collect(engine: Engine, request: GenerationRequest = REQUEST) -> list[list[int]]:
    """The ids of a whole generation, message by message."""
    messages: list[list[int]] = []
    async with aclosing(pushed.chunks(engine, request)) as batches:
        async for batch in batches:
            assert batch, "a batch is never empty"
            messages += [ids for chunk in batch if (ids := ids_of(chunk))]
    return messages


class EngineContract:
    """The suite."""

    async def test_ids_arrive_complete_and_in_order(self, stage: Stage) -> None:
        ids = [[number] for number in range(100, 160)]
        assert await collect(stage(Play(ids))) == ids

    async def test_messages_of_several_ids_stay_whole(self, stage: Stage) -> None:
        assert await collect(stage(Play([[5, 6, 7, 8], [9]]))) == [[5, 6, 7, 8], [9]]

    async def test_a_generation_may_be_empty(self, stage: Stage) -> None:
        assert await collect(stage(Play([]))) == []

    async def test_ids_arrive_before_the_generation_ends(self, stage: Stage) -> None:
        engine = stage(Play([[5]], Ending.SILENCE))
        async with aclosing(pushed.chunks(engine, REQUEST)) as batches:
            async with asyncio.timeout(SOON_S):
                batch = await anext(batches)
            assert ids_of(batch[0]) == [5]

    async def test_closing_stops_the_generation_at_the_other_end(self, stage: Stage) -> None:
        play = Play([[5]], Ending.SILENCE)
        async with aclosing(pushed.chunks(stage(play), REQUEST)) as batches:
            await anext(batches)
        async with asyncio.timeout(SOON_S):
            await play.stopped.wait()

    async def test_cancelling_the_task_that_waits_stops_it_too(self, stage: Stage) -> None:
        play = Play([], Ending.SILENCE)
        waiting = asyncio.create_task(collect(stage(play)))
        async with asyncio.timeout(SOON_S):
            await play.begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(SOON_S):
            await play.stopped.wait()

    async def test_generate_returns_when_nothing_more_is_wanted_and_stops_it(self, stage: Stage) -> None:
        play = Play([[5]], Ending.SILENCE)
        deliveries = pushed.Deliveries(most=1)
        async with asyncio.timeout(SOON_S):
            await stage(play).generate(REQUEST, deliveries, Flow())
            await play.stopped.wait()
        assert len(deliveries.received) == 1

    async def test_nothing_is_delivered_after_the_last_that_was_wanted(self, stage: Stage) -> None:
        deliveries = pushed.Deliveries(most=1)
        play = Play([[number] for number in range(5, 25)], pause_s=0.001)
        await stage(play).generate(REQUEST, deliveries, Flow())
        assert len(deliveries.received) == 1

    async def test_an_error_of_deliver_is_raised_and_stops_it(self, stage: Stage) -> None:
        play = Play([[5]], Ending.SILENCE)

        def deliver(chunks: Sequence[EngineChunk]) -> bool:
            raise ZeroDivisionError

        async with asyncio.timeout(SOON_S):
            with pytest.raises(ZeroDivisionError):
                await stage(play).generate(REQUEST, deliver, Flow())
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

        running = asyncio.create_task(stage(Play(ids, pause_s=0.005)).generate(REQUEST, deliver, flow))
        async with asyncio.timeout(SOON_S):
            await is_paused.wait()
            before = list(received)
            await asyncio.sleep(0.1)
            assert received == before
            flow.resume(self)
            await running
        assert received == ids

    async def test_cancelling_while_the_flow_is_paused_stops_it(self, stage: Stage) -> None:
        play = Play([[5], [6]], Ending.SILENCE)
        flow, deliveries = Flow(), pushed.Deliveries()
        running = asyncio.create_task(stage(play).generate(REQUEST, deliveries, flow))
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

    async def test_what_came_before_an_error_is_delivered(self, stage: Stage) -> None:
        seen = []
        with pytest.raises(EngineFault):
            async with aclosing(pushed.chunks(stage(Play([[5], [6]], Ending.ERROR)), REQUEST)) as batches:
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

    async def test_it_is_ready(self, stage: Stage) -> None:
        await stage(Play([])).ready()

    async def test_it_takes_the_sampling_controls_it_names(self, stage: Stage) -> None:
        assert {"temperature", "top_p", "seed"} <= await stage(Play([])).controls()

    async def test_it_refuses_those_that_it_does_not_name(self, stage: Stage) -> None:
        """A wish is never ignored; an engine that takes all has none to refuse."""
        engine = stage(Play([[5]]))
        unnamed = {member.name for member in fields(Sampling)} - await engine.controls()
        for name in unnamed:
            with pytest.raises(EngineFault):
                await collect(engine, replace(REQUEST, sampling=Sampling(**{name: 1})))
