from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openresponses_types.types import CompactResource

from antiphon_core import response
from antiphon_core.clock import ManualClock
from antiphon_core.errors import EngineUnavailable
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Receive, Turn
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_edge.callers.authentication import TENANT_HEADER
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer

CONTEXT: list[Object] = [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
    {"role": "user", "content": "three"},
]


async def compact(edge: RunningEdge, **members: Any) -> Answer:
    return await edge.ask("POST", "/v1/responses/compact", {"model": "m"} | members)


def shown(edge: RunningEdge) -> list[Object]:
    """The history and input of the translator's last turn."""
    turn = edge.translator.turns[-1]
    return [*loads(turn.history), *loads(turn.input)]


async def test_user_and_developer_messages_are_kept_and_the_rest_is_summarised(edge: RunningEdge) -> None:
    answer = await compact(edge, input=CONTEXT, prompt_cache_key="k")
    assert answer.status == 200
    CompactResource.model_validate(answer.json)
    assert (answer.json["object"], answer.json["usage"]["output_tokens"]) == ("response.compaction", 2)
    *kept, item = answer.json["output"]
    assert [message["content"][0]["text"] for message in kept] == ["be brief", "one", "three"]
    assert (item["type"], item["summary"][0]["text"]) == ("compaction", "Hello there")
    assert (await edge.ask("GET", f"/v1/responses/{answer.json['id']}")).status == 404


@pytest.mark.parametrize("bare", [True, False])
async def test_output_of_a_compaction_is_accepted_as_the_next_input(edge: RunningEdge, bare: bool) -> None:
    output = (await compact(edge, input=CONTEXT)).json["output"]
    if bare:  # like a client that keeps only the declared members
        output[-1] = {"type": "compaction", "encrypted_content": output[-1]["encrypted_content"]}
    first = (await edge.create(input=[*output, {"role": "user", "content": "four"}])).json
    assert [item["type"] for item in shown(edge)] == ["message"] * 3 + ["compaction", "message"]
    assert shown(edge)[3]["summary"][0]["text"] == "Hello there"
    await edge.create(input="five", previous_response_id=first["id"])
    assert shown(edge)[3]["summary"][0]["text"] == "Hello there"


async def test_a_chain_can_be_compacted_and_a_compaction_again(edge: RunningEdge) -> None:
    first = (await edge.create(input="one")).json
    once = (await compact(edge, previous_response_id=first["id"])).json["output"]
    assert [item["type"] for item in once] == ["message", "compaction"]
    again = (await compact(edge, input=[*once, {"role": "user", "content": "two"}])).json["output"]
    assert [item["type"] for item in again] == ["message", "message", "compaction"]
    assert [item["type"] for item in shown(edge)] == ["message", "compaction", "message", "message"]


async def test_compaction_is_opened_by_a_replica_with_its_key_and_only_for_its_tenant(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"one {'1f' * 32}\n")
    async with (
        running_edge(sealing_keys_file=keys) as here,
        running_edge(sealing_keys_file=keys, tenants=True) as there,
    ):
        output = (await compact(here, input=CONTEXT)).json["output"]
        body = {"model": "m", "input": output}
        accepted = await there.ask("POST", "/v1/responses", body, headers={TENANT_HEADER: DEFAULT_TENANT})
        assert accepted.status == 200
        refused = await there.ask("POST", "/v1/responses", body, headers={TENANT_HEADER: "other"})
        assert (refused.status, refused.error["code"]) == (400, "invalid_encrypted_content")
        assert refused.error["param"] == "input[3].encrypted_content"


async def test_a_conversation_takes_no_compaction_that_it_cannot_open(edge: RunningEdge) -> None:
    output = (await compact(edge, input=CONTEXT)).json["output"]
    made = (await edge.ask("POST", "/v1/conversations", {"items": output})).json
    await edge.create(conversation=made["id"])
    assert [item["type"] for item in shown(edge)] == ["message"] * 3 + ["compaction", "message"]
    garbled = [{"type": "compaction", "encrypted_content": "x"}]
    refused = await edge.ask("POST", f"/v1/conversations/{made['id']}/items", {"items": garbled})
    assert (refused.error["code"], refused.error["param"]) == (
        "invalid_encrypted_content",
        "items[0].encrypted_content",
    )


@pytest.mark.parametrize(
    ("members", "status", "param", "code"),
    [
        ({"model": None, "input": "x"}, 400, "model", "invalid_type"),
        ({"input": []}, 400, "input", "empty_array"),
        ({}, 400, "input", "empty_array"),
        ({"input": "x", "stream": True}, 400, "stream", "unknown_parameter"),
        ({"input": "x", "model": "other"}, 404, "model", "model_not_found"),
        (
            {"previous_response_id": "resp_" + "0" * 48},
            400,
            "previous_response_id",
            "previous_response_not_found",
        ),
    ],
)
async def test_invalid_parameter_is_rejected_by_name(
    edge: RunningEdge, members: Any, status: int, param: str, code: str
) -> None:
    answer = await compact(edge, **members)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (status, param, code)


async def test_compaction_without_a_model_is_rejected(edge: RunningEdge) -> None:
    answer = await edge.ask("POST", "/v1/responses/compact", {"input": "x"})
    assert (answer.status, answer.error["code"]) == (400, "missing_required_parameter")


@pytest.mark.parametrize("header", ["Idempotency-Key", "x-antiphon-session"])
async def test_key_or_session_header_on_a_compaction_is_rejected(edge: RunningEdge, header: str) -> None:
    body = {"model": "m", "input": CONTEXT}
    answer = await edge.ask("POST", "/v1/responses/compact", body, headers={header: "a"})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, header, "unsupported_parameter")
    assert edge.translator.turns == []


async def test_unavailable_engine_is_answered_with_503(edge: RunningEdge) -> None:
    edge.translator.fault = EngineUnavailable("no Triton at 127.0.0.1:8001")
    assert (await compact(edge, input="x")).status == 503


async def test_tokens_of_successful_and_failed_summaries_are_charged() -> None:
    async def cut_off(_turn: Turn, receive: Receive, **_options: Any) -> None:
        body = {"usage": response.usage(input_tokens=3, output_tokens=4)}
        receive(Batch(0, 1, b"", Final(Status.INCOMPLETE, dumps(body), b"[]")))

    async with running_edge(tokens_per_minute=1_000, clock=ManualClock()) as edge:
        whole = await compact(edge, input=CONTEXT)
        assert (whole.status, whole.headers["x-ratelimit-remaining-tokens"]) == (200, "995")
        edge.translator.generate = cut_off  # type: ignore[assignment]
        assert (await compact(edge, input=CONTEXT)).status == 502
        left = (await edge.ask("GET", "/v1/models")).headers["x-ratelimit-remaining-tokens"]
        assert left == str(995 - 2 * 7)
