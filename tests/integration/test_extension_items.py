"""Items of extension types, as Open Responses names them: stored unchanged, and shown to no model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.jsons import Object
from tests.support.scripted_answers import LINE
from tests.support.scripted_system import MODEL, ScriptedSystem, scripted_system

USER: Object = {"role": "user", "content": "Hi"}
NOTE: Object = {"type": "x-acme:note", "id": "note_1", "text": "SECRET", "status": None, "deep": {"a": [1, None]}}


@pytest.fixture
async def system() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running


async def test_an_extension_item_is_stored_unchanged_and_not_shown_to_the_model(system: ScriptedSystem) -> None:
    answer = await system.http.create(model=MODEL, input=[NOTE, USER])
    assert answer.json["output"][0]["content"][0]["text"] == LINE
    listed = (await system.http.get(f"/v1/responses/{answer.json['id']}/input_items?order=asc")).json["data"]
    assert listed[0] == NOTE
    assert "SECRET" not in system.model.prompts[-1]
    behind = await system.http.create(model=MODEL, input="And?", previous_response_id=answer.json["id"])
    assert (behind.status, "SECRET" in system.model.prompts[-1]) == (200, False)


async def test_an_extension_item_without_id_gets_only_an_id(system: ScriptedSystem) -> None:
    unnamed = {name: value for name, value in NOTE.items() if name != "id"}
    answer = await system.http.create(model=MODEL, input=[unnamed, USER])
    listed = (await system.http.get(f"/v1/responses/{answer.json['id']}/input_items?order=asc")).json["data"]
    assert listed[0] == unnamed | {"id": listed[0]["id"]}


async def test_extension_items_are_kept_in_conversations_and_compactions(system: ScriptedSystem) -> None:
    conversation = (await system.http.post("/v1/conversations", {"items": [NOTE | {"id": None}, USER]})).json["id"]
    items = (await system.http.get(f"/v1/conversations/{conversation}/items?order=asc")).json["data"]
    assert items[0] == NOTE | {"id": items[0]["id"]}
    own = {"role": "user", "content": "Hi", "text": "a client's own", "reasoning": 1, "call_id": [7], "async": True}
    context = [NOTE, USER, own, {"role": "assistant", "content": "Hello.", "call_id": {}, "async": True}]
    compacted = (await system.http.post("/v1/responses/compact", {"model": MODEL, "input": context})).json["output"]
    assert NOTE in compacted


async def test_an_invalid_extension_type_is_rejected(system: ScriptedSystem) -> None:
    for name in ("acme:", ":note", "a b:c", "x:" + "y" * 200):
        answer = await system.http.create(model=MODEL, input=[{"type": name}, USER])
        assert (answer.status, answer.error["param"]) == (400, "input[0].type"), name


async def test_a_video_is_refused_by_its_name(system: ScriptedSystem) -> None:
    parts = [{"type": "input_video", "video_url": "https://example.com/a.mp4"}]
    answer = await system.http.create(model=MODEL, input=[{"role": "user", "content": parts}])
    assert (answer.status, answer.error["code"], answer.error["param"]) == (
        400,
        "unsupported_value",
        "input[0].content[0]",
    )
    assert "input_video" in answer.error["message"]
