"""Real answers match their schemas."""

from __future__ import annotations

import pytest

from tests.support.document import require
from tests.support.scripted_system import MODEL, SEER, scripted_system

FUNCTION = {"type": "function", "name": "f"}
CUSTOM = {"type": "custom", "name": "c"}


async def test_real_responses_match_their_schema() -> None:
    async with scripted_system() as system:
        for members in (
            {"input": "Hi", "metadata": {"a": "b"}},
            {"input": "Think."},
            {"input": "Hi", "tools": [FUNCTION], "tool_choice": "auto"},
            {"input": "Hi", "max_output_tokens": 1},
            {"input": "Hi", "background": True},
            {"input": "Think.", "include": ["reasoning.encrypted_content"], "store": False},
        ):
            made = await system.http.create(model=MODEL, **members)
            require("Response", made.json)
        require("Error", (await system.http.get("/v1/responses/resp_1")).json)
        require(
            "InputTokens", (await system.http.post("/v1/responses/input_tokens", {"model": MODEL, "input": "a"})).json
        )


async def test_real_lists_trees_and_conversations_match_their_schemas() -> None:
    async with scripted_system() as system:
        http = system.http
        talk = (await http.post("/v1/conversations", {"items": [{"role": "user", "content": "Hi"}]})).json
        require("Conversation", talk)
        made = (await http.create(model=MODEL, input="Hi", conversation=talk["id"])).json
        require("ItemList", (await http.get(f"/v1/conversations/{talk['id']}/items")).json)
        require("ItemList", (await http.get(f"/v1/responses/{made['id']}/input_items")).json)
        for relation in ("tree", "children", "siblings", "leaves"):
            require("NodeList", (await http.get(f"/v1/responses/{made['id']}/{relation}")).json)
        require("Chain", (await http.get(f"/v1/responses/{made['id']}/chain")).json)
        require("Session", (await http.post(f"/v1/sessions/{talk['id']}/fork", {})).json)
        require("DeletedResponse", (await http.ask("DELETE", f"/v1/responses/{made['id']}")).json)
        require("DeletedConversation", (await http.ask("DELETE", f"/v1/conversations/{talk['id']}")).json)


async def test_real_service_answers_match_their_schemas() -> None:
    async with scripted_system() as system:
        require("ModelList", (await system.http.get("/v1/models")).json)
        require("Model", (await system.http.get(f"/v1/models/{SEER}")).json)
        require("Health", (await system.http.get("/v1/health/ready")).json)
        require("Metadata", (await system.http.get("/v1/metadata")).json)
        require("Version", (await system.http.get("/v1/version")).json)


def test_schemas_reject_incomplete_answers() -> None:
    with pytest.raises(AssertionError, match="required property"):
        require("Error", {"error": {"message": "m"}})
    with pytest.raises(AssertionError):
        require("Response", {"id": "resp_1"})
