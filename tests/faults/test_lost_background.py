"""The only Triton server of a model dies in the middle of a background response, and comes back."""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from antiphon_core.ports.store import Record
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_local_triton.repository import MODEL_NAME
from tests.support.background import Bench, bench, text_of, whole
from tests.support.triton import smollm2_server
from tests.support.turns import engine_on, serving


async def asked(shop: Bench) -> Record:
    return await shop.create(input="Tell me a long story.", temperature=0, max_output_tokens=100)


def said(log: list[Object]) -> int:
    return [event["type"] for event in log].count(events.OUTPUT_TEXT_DELTA)


async def test_a_background_response_resumes_when_its_engine_is_back() -> None:
    async with (
        smollm2_server(MODEL_NAME) as server,
        serving(engine_on(server, name=MODEL_NAME)) as translator,
        bench(translator, timing=TurnTiming()) as shop,  # the timing of production
        shop.worker(),
    ):
        undisturbed = whole(await shop.ended((await asked(shop)).id))
        record = await asked(shop)
        heard: list[Object] = []
        async for batch in shop.edge.stream("default", record):
            before, heard = said(heard), [*heard, *events.decode(batch.frames)]
            if before < 20 <= said(heard):
                server.kill()
        assert events.ERROR not in [event["type"] for event in heard]
        assert [event["sequence_number"] for event in heard] == list(range(len(heard)))
        ended = whole(await shop.store.get("default", record.id))
        assert fold(heard) == ended
        assert (ended["status"], text_of(ended)) == (undisturbed["status"], text_of(undisturbed))
        assert ended["usage"] == undisturbed["usage"]
