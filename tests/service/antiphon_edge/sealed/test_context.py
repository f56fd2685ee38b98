"""`previous_response` and its encrypted context, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.errors import EngineUnavailable
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import SEALED_CONTEXT_BYTES_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Turn
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_edge.sealed import context as sealed_context
from antiphon_edge.sealed.sealing import Sealer
from tests.support.edge import RunningEdge, running_edge

SEALED: Object = {"store": False, "include": ["reasoning.encrypted_content"]}


def texts(edge: RunningEdge) -> list[str]:
    """The texts in the last history that the model was shown, without the turn's own input."""
    return [item["content"][0]["text"] for item in loads(edge.translator.turns[-1].history)]


async def test_a_whole_response_is_continued_turn_after_turn_and_nothing_is_stored(edge: RunningEdge) -> None:
    first = (await edge.create(input="one", **SEALED)).json
    second = await edge.create(input="two", previous_response=first, **SEALED)
    assert second.json["previous_response_id"] == first["id"]
    third = await edge.create(input="three", previous_response=second.json, store=False)
    assert third.status == 200
    assert texts(edge) == ["one", "Hello there", "two", "Hello there"]
    assert "encrypted_context" not in third.json
    for response in (first, second.json):
        assert (await edge.ask("GET", f"/v1/responses/{response['id']}")).status == 404


async def test_response_at_the_end_of_a_stream_can_be_continued(edge: RunningEdge) -> None:
    streamed = await edge.create(input="one", stream=True, **SEALED)
    ended = streamed.events[-1]["response"]
    await edge.create(input="two", previous_response=ended, store=False)
    assert texts(edge) == ["one", "Hello there"]


async def test_output_that_the_client_removed_is_not_shown(edge: RunningEdge) -> None:
    first = (await edge.create(input="one", **SEALED)).json
    await edge.create(input="two", previous_response=first | {"output": []}, store=False)
    assert texts(edge) == ["one"]


async def test_a_stored_turn_takes_the_history_into_its_input(edge: RunningEdge) -> None:
    first = (await edge.create(input="one", **SEALED)).json
    second = (await edge.create(input="two", previous_response=first)).json
    listed = (await edge.ask("GET", f"/v1/responses/{second['id']}/input_items?order=asc")).json["data"]
    assert [item["content"][0]["text"] for item in listed] == ["one", "Hello there", "two"]
    await edge.create(input="three", previous_response_id=second["id"])
    assert texts(edge) == ["one", "Hello there", "two", "Hello there"]


async def test_a_stored_response_is_continued_by_its_id(edge: RunningEdge) -> None:
    first = (await edge.create(input="one")).json
    assert "encrypted_context" not in first
    second = (await edge.create(input="two", previous_response=first)).json
    assert texts(edge) == ["one", "Hello there"]
    tree = (await edge.ask("GET", f"/v1/responses/{first['id']}/children")).json
    assert [node["id"] for node in tree["data"]] == [second["id"]]
    unknown = await edge.create(previous_response=first | {"id": "resp_" + "0" * 48})
    assert (unknown.status, unknown.error["code"]) == (400, "previous_response_not_found")


async def test_tokens_are_counted_with_the_history(edge: RunningEdge) -> None:
    first = (await edge.create(input="one", **SEALED)).json
    seen: list[Turn] = []

    async def count(turn: Turn) -> int:
        seen.append(turn)
        return 5

    edge.translator.count_tokens = count  # type: ignore[method-assign]
    body = {"model": "m", "input": "two", "previous_response": first}
    assert (await edge.ask("POST", "/v1/responses/input_tokens", body)).json["input_tokens"] == 5
    assert len(loads(seen[0].history)) == 2


async def test_previous_response_without_encrypted_context_is_rejected(edge: RunningEdge) -> None:
    first = (await edge.create(store=False)).json
    answer = await edge.create(previous_response=first)
    assert (answer.status, answer.error["code"]) == (400, "missing_required_parameter")
    assert answer.error["param"] == "previous_response.encrypted_context"
    assert "reasoning.encrypted_content" in answer.error["message"]


@pytest.mark.parametrize("change", ["garbled", "another", "reasoning"])
async def test_context_that_was_not_sealed_for_this_response_is_rejected(edge: RunningEdge, change: str) -> None:
    first = (await edge.create(**SEALED)).json
    if change == "garbled":
        first["encrypted_context"] = first["encrypted_context"][:-8] + "AAAAAAA="
    elif change == "another":
        first["id"] = (await edge.create(**SEALED)).json["id"]
    else:
        first["encrypted_context"] = edge.server._parts.sealer.seal("default", '["resp_1","[]"]')
    answer = await edge.create(previous_response=first)
    assert (answer.status, answer.error["code"]) == (400, "invalid_encrypted_content")
    assert answer.error["param"] == "previous_response.encrypted_context"


async def test_context_sealed_for_another_tenant_is_rejected() -> None:
    async with running_edge(tenants=True) as edge:
        sealed = await edge.ask(
            "POST", "/v1/responses", {"model": "m", "input": "x", **SEALED}, headers={TENANT_HEADER: "own"}
        )
        body = {"model": "m", "input": "x", "previous_response": sealed.json}
        answer = await edge.ask("POST", "/v1/responses", body, headers={TENANT_HEADER: "other"})
        assert answer.error["code"] == "invalid_encrypted_content"


async def test_replica_with_the_same_keys_continues_a_sealed_response(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"one {'1f' * 32}\n")
    async with running_edge(sealing_keys_file=keys) as here, running_edge(sealing_keys_file=keys) as there:
        first = (await here.create(input="one", **SEALED)).json
        assert (await there.create(input="two", previous_response=first, store=False)).status == 200
        assert texts(there) == ["one", "Hello there"]


async def test_whole_previous_response_in_a_session_is_rejected(edge: RunningEdge) -> None:
    first = (await edge.create(**SEALED)).json
    body = {"model": "m", "input": "x", "previous_response": first}
    answer = await edge.ask("POST", "/v1/responses", body, headers={"x-antiphon-session": "s1"})
    assert (answer.status, answer.error["code"]) == (400, "mutually_exclusive_parameters")


async def test_a_failed_response_has_no_context(edge: RunningEdge) -> None:
    edge.translator.fault = EngineUnavailable("no")
    streamed = await edge.create(stream=True, **SEALED)
    assert streamed.events[-1]["type"] == events.FAILED
    assert "encrypted_context" not in streamed.events[-1]["response"]


def test_context_over_the_size_limit_is_left_out() -> None:
    for size, is_sealed in ((10, True), (SEALED_CONTEXT_BYTES_MAX, False)):
        turn = Turn("resp_1", 0, b'{"include":["reasoning.encrypted_content"]}', input=b'["' + b"x" * size + b'"]')
        change = sealed_context.sealer_of("t", turn, _sealer())
        assert ("encrypted_context" in loads(_final_body(change(_last())))) is is_sealed


async def test_a_stored_response_has_no_context(edge: RunningEdge) -> None:
    assert "encrypted_context" not in (await edge.create(**{**SEALED, "store": True})).json


def _sealer() -> Sealer:
    return Sealer(SealingKeys.ephemeral(), ttl_s=60, clock=SystemClock())


def _last() -> Batch:
    frames = events.encode({"type": events.COMPLETED, "response": {"id": "resp_1", "output": []}})
    return Batch(0, 1, frames, Final(Status.COMPLETED, b'{"id":"resp_1"}', b"[]"))


def _final_body(batch: Batch) -> Any:
    assert batch.final is not None
    return batch.final.body
