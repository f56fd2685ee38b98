from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest
from antiphon_core.fold import Fold, fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.translator import Batch
from antiphon_edge.sealed.reasoning import INCLUDE, ReasoningSealer, open_items, sealer_of
from antiphon_edge.sealed.sealing import Sealer
from tests.support.pushed import generated
from tests.support.served_models import turn
from tests.support.thinking_edges import PausableEngine, losable

THOUGHT = "Hm."
SAID = ("<think>", THOUGHT, "</think>", "Ja.")


@pytest.fixture
def sealer() -> Sealer:
    return Sealer.of(None, ttl_s=10, clock=ManualClock())


async def play(sealer: Sealer, *said: str, **request: Any) -> list[Batch]:
    """The batches of a turn that two processes sent: each seals one part."""
    batches = [batch async for batch in generated(losable(PausableEngine(*said)), turn("Hi"))]
    change = sealer_of("t", turn("Hi", **request), sealer)
    if change is None:
        return batches
    cut = len(batches) - 2  # behind the reasoning
    told, changed = Fold(), [change(batch) for batch in batches[:cut]]
    for batch in changed:
        told.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
    second = sealer_of("t", turn("Hi", **request), sealer, sent=told.response()["output"])
    assert second is not None
    return [*changed, *map(second, batches[cut:])]


def log_of(batches: Sequence[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


async def test_reasoning_has_one_seal_in_events_and_record(sealer: Sealer) -> None:
    batches = await play(sealer, *SAID, include=[INCLUDE])
    log = log_of(batches)
    done = next(event["item"] for event in log if event["type"] == events.OUTPUT_ITEM_DONE)
    assert sealer.open("t", done["encrypted_content"]) == THOUGHT
    assert done == log[-1]["response"]["output"][0]
    assert batches[-1].final is not None
    assert fold(log)["output"] == log[-1]["response"]["output"] == loads(batches[-1].final.output_items)


@pytest.mark.parametrize("request_", [{}, {"include": []}, {"metadata": {"a": INCLUDE}}])
async def test_batches_without_the_include_are_passed_on_unchanged(sealer: Sealer, request_: Object) -> None:
    assert sealer_of("t", turn("Hi", **request_), sealer) is None
    assert b"encrypted_content" not in b"".join(batch.frames for batch in await play(sealer, *SAID, **request_))


async def test_an_answer_without_reasoning_passes_as_it_is(sealer: Sealer) -> None:
    change = sealer_of("t", turn("Hi", include=[INCLUDE]), sealer)
    assert change is not None
    async for batch in generated(losable(PausableEngine("Ja.")), turn("Hi")):
        assert change(batch) is batch


def test_reasoning_is_opened_from_its_seal_alone(sealer: Sealer) -> None:
    items: list[Object] = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [], "encrypted_content": sealer.seal("t", THOUGHT)},
        {"type": "reasoning", "summary": []},
    ]
    first, second, third = open_items(items, sealer, "t")
    assert (first, third) == (items[0], items[2])
    assert second["content"] == [{"type": "reasoning_text", "text": THOUGHT}]


def test_summary_is_sealed_when_the_reasoning_has_no_content(sealer: Sealer) -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}], "content": []}
    sealed = ReasoningSealer(sealer, "t").item(item)
    assert sealer.open("t", sealed["encrypted_content"]) == THOUGHT


def test_reasoning_text_beside_its_seal_is_kept(sealer: Sealer) -> None:
    content = [{"type": "reasoning_text", "text": "edited"}]
    item = {"type": "reasoning", "content": content, "encrypted_content": sealer.seal("t", THOUGHT)}
    assert open_items([item], sealer, "t") == [item]


@pytest.mark.parametrize("members", [{}, {"content": [{"type": "reasoning_text", "text": "x"}]}])
@pytest.mark.parametrize("seal", ["gAAAAABo", ""])
def test_foreign_encrypted_content_is_rejected_with_its_path(sealer: Sealer, members: Object, seal: str) -> None:
    item = {"type": "reasoning", "encrypted_content": seal} | members
    with pytest.raises(InvalidRequest) as caught:
        open_items([{"role": "user", "content": "Hi"}, item], sealer, "t")
    assert (caught.value.field, caught.value.code) == ("input[1].encrypted_content", "invalid_encrypted_content")


def test_encrypted_content_of_other_items_is_left_alone(sealer: Sealer) -> None:
    item = {"type": "message", "role": "user", "content": "x", "encrypted_content": "?"}
    assert open_items([item], sealer, "t") == [item]
