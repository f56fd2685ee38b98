from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response

from antiphon_core.errors import VersionMismatch
from antiphon_core.jsons import Object, loads
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_store.service import StoreService
from tests.support.edge import RunningEdge, running_edge

ALL = "/v1/prompts"
UNKNOWN = "pmpt_" + "0" * 48
BODY: Object = {"instructions": "Speak {{language}}.", "input": [{"role": "user", "content": "Hi, {{name}}."}]}
VALUES = {"language": "Latin", "name": "Ann"}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


async def made(edge: RunningEdge, body: Object | None = None, **options: Any) -> Object:
    answer = await edge.ask("POST", ALL, body or BODY, **options)
    assert answer.status == 200, answer.body
    prompt: Object = answer.json
    return prompt


async def test_a_prompt_is_made_read_and_deleted(edge: RunningEdge) -> None:
    prompt = await made(edge)
    assert prompt.items() >= {"object": "prompt", "version": "1", "latest_version": "1", **BODY}.items()
    assert prompt["variables"] == ["language", "name"]
    assert (await edge.ask("GET", f"{ALL}/{prompt['id']}")).json == prompt
    gone = (await edge.ask("DELETE", f"{ALL}/{prompt['id']}")).json
    assert gone == {"id": prompt["id"], "object": "prompt.deleted", "deleted": True}
    for method in ("GET", "DELETE"):
        assert (await edge.ask(method, f"{ALL}/{prompt['id']}")).status == 404


async def test_versions_are_added_and_never_change(edge: RunningEdge) -> None:
    path = f"{ALL}/{(await made(edge))['id']}"
    other = {"instructions": "Other."}
    added = (await edge.ask("POST", f"{path}/versions", other)).json
    assert (added["version"], added["latest_version"], added["instructions"]) == ("2", "2", "Other.")
    assert (added["input"], added["variables"]) == ([], [])
    assert (await edge.ask("POST", f"{path}/versions", other)).json == added  # the same content
    first = (await edge.ask("GET", f"{path}?version=1")).json
    assert (first["version"], first["latest_version"], first["instructions"]) == ("1", "2", BODY["instructions"])
    assert (await edge.ask("GET", path)).json == added
    missing = await edge.ask("GET", f"{path}?version=3")
    assert (missing.status, "has no version 3" in missing.error["message"]) == (404, True)


async def test_version_number_taken_by_a_concurrent_request_is_skipped(
    edge: RunningEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt_id = (await made(edge))["id"]
    put, attempts = StoreService.put_prompt, []

    async def late(store: StoreService, tenant: str, prompt_id: str, version: int, content: bytes) -> Any:
        attempts.append(version)
        if len(attempts) == 1:
            await put(store, tenant, prompt_id, version, b'{"instructions":"theirs"}')
        if content == b'{"instructions":"never"}':
            raise VersionMismatch.of(prompt_id, expected=1, actual=2)
        return await put(store, tenant, prompt_id, version, content)

    monkeypatch.setattr(StoreService, "put_prompt", late)
    added = (await edge.ask("POST", f"{ALL}/{prompt_id}/versions", {"instructions": "ours"})).json
    assert (added["version"], attempts) == ("3", [2, 3])
    assert (await edge.ask("POST", f"{ALL}/{prompt_id}/versions", {"instructions": "never"})).status == 409


async def test_version_beyond_the_limit_is_rejected(edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_edge.routes.prompts.PROMPT_VERSIONS_ITEMS_MAX", 1)
    path = f"{ALL}/{(await made(edge))['id']}/versions"
    assert (await edge.ask("POST", path, BODY)).status == 200  # the same content
    refusal = await edge.ask("POST", path, {"instructions": "Other."})
    assert (refusal.status, refusal.error["code"], refusal.error["param"]) == (400, "too_many_versions", None)


async def test_prompts_are_listed_page_by_page(edge: RunningEdge) -> None:
    assert (await edge.ask("GET", ALL)).json == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }
    ids = sorted([(await made(edge))["id"] for _ in range(3)])
    found: list[str] = []
    query, has_more = "?limit=2&order=asc", True
    while has_more:
        page = (await edge.ask("GET", ALL + query)).json
        assert all(set(each) == {"id", "object", "created_at", "version", "latest_version"} for each in page["data"])
        found += [each["id"] for each in page["data"]]
        query, has_more = f"?limit=2&order=asc&after={page['last_id']}", page["has_more"]
    assert sorted(found) == ids
    newest_first = (await edge.ask("GET", ALL)).json["data"]
    assert [each["id"] for each in newest_first] == found[::-1]
    assert (await edge.ask("GET", f"{ALL}?after={UNKNOWN}")).error["param"] == "after"


async def test_a_key_makes_a_prompt_once(edge: RunningEdge) -> None:
    key = {"Idempotency-Key": "k"}
    prompt = await made(edge, headers=key)
    assert await made(edge, headers=key) == prompt
    other = await edge.ask("POST", ALL, {"instructions": "Other."}, headers=key)
    assert other.error["code"] == "idempotency_key_reused"
    assert (await made(edge))["id"] != prompt["id"]


async def test_a_turn_takes_the_prompt_into_its_record(edge: RunningEdge) -> None:
    prompt_id = (await made(edge))["id"]
    answer = await edge.create(input="Go on.", prompt={"id": prompt_id, "variables": VALUES})
    assert answer.status == 200, answer.body
    response = answer.json
    Response.model_validate(response)
    assert response["prompt"] == {"id": prompt_id, "version": "1", "variables": VALUES}
    assert response["instructions"] == "Speak Latin."
    assert loads(edge.translator.turns[0].request)["instructions"] == "Speak Latin."
    await edge.ask("DELETE", f"{ALL}/{prompt_id}")
    items = (await edge.ask("GET", f"/v1/responses/{response['id']}/input_items?order=asc")).json["data"]
    assert [item["content"][0]["text"] for item in items] == ["Hi, Ann.", "Go on."]
    await edge.create(input="More.", previous_response_id=response["id"])
    history = loads(edge.translator.turns[1].history)
    assert [item["content"][0]["text"] for item in history[:2]] == ["Hi, Ann.", "Go on."]


async def test_a_repeated_request_gets_its_answer_when_the_prompt_is_gone(edge: RunningEdge) -> None:
    prompt_id = (await made(edge))["id"]
    asked: Object = {"model": "m", "input": "x", "prompt": {"id": prompt_id, "variables": VALUES}}
    first = await edge.ask("POST", "/v1/responses", asked, headers={"Idempotency-Key": "k"})
    await edge.ask("DELETE", f"{ALL}/{prompt_id}")
    again = await edge.ask("POST", "/v1/responses", asked, headers={"Idempotency-Key": "k"})
    assert (first.status, again.status, again.json["id"]) == (200, 200, first.json["id"])
    assert (await edge.ask("POST", "/v1/responses", asked)).error["param"] == "prompt.id"


async def test_an_image_is_a_variable_too_and_the_input_may_be_left_out(edge: RunningEdge) -> None:
    prompt_id = (await made(edge, {"input": [{"role": "user", "content": "What is {{it}}?"}]}))["id"]
    body = {"model": "m", "prompt": {"id": prompt_id, "variables": {"it": IMAGE}}}
    assert (await edge.ask("POST", "/v1/responses", body)).status == 200
    (item,) = loads(edge.translator.turns[0].input)
    assert [part["type"] for part in item["content"]] == ["input_text", "input_image", "input_text"]
    assert (await edge.ask("POST", "/v1/responses/input_tokens", body)).status == 200


@pytest.mark.parametrize(
    ("prompt", "status", "param"),
    [
        ({"id": UNKNOWN}, 404, "prompt.id"),
        ({"version": "7"}, 404, "prompt.version"),
        ({"variables": {"language": "Latin"}}, 400, "prompt.variables.name"),
        ({"variables": VALUES | {"more": "x"}}, 400, "prompt.variables.more"),
        ({"variables": VALUES | {"language": IMAGE}}, 400, "prompt.variables.language"),
    ],
)
async def test_invalid_prompt_reference_is_rejected_by_name(
    edge: RunningEdge, prompt: Object, status: int, param: str
) -> None:
    prompt_id = (await made(edge))["id"]
    answer = await edge.create(prompt={"id": prompt_id, "variables": VALUES} | prompt, conversation=await talk(edge))
    assert (answer.status, answer.error["param"]) == (status, param)
    assert (await edge.create(conversation=await talk(edge))).status == 200


async def talk(edge: RunningEdge) -> str:
    return str((await edge.ask("POST", "/v1/conversations", {}, headers={"Idempotency-Key": "talk"})).json["id"])


async def test_another_tenants_prompt_does_not_exist() -> None:
    async with running_edge(tenants=True) as edge:
        prompt_id = (await made(edge, headers={TENANT_HEADER: "a"}))["id"]
        other = {TENANT_HEADER: "b"}
        assert (await edge.ask("GET", f"{ALL}/{prompt_id}", headers=other)).status == 404
        assert (await edge.ask("GET", ALL, headers=other)).json["data"] == []
        body = {"model": "m", "input": "x", "prompt": {"id": prompt_id, "variables": VALUES}}
        assert (await edge.ask("POST", "/v1/responses", body, headers=other)).status == 404
        assert (await edge.ask("POST", "/v1/responses", body, headers={TENANT_HEADER: "a"})).status == 200


async def test_malformed_prompt_id_is_not_found(edge: RunningEdge) -> None:
    assert (await edge.ask("GET", f"{ALL}/nonsense")).status == 404
    assert (await edge.ask("GET", f"{ALL}/{UNKNOWN}?version=x")).error["param"] == "version"
