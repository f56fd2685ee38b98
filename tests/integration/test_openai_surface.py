"""The members, items and tools of OpenAI's API: each is implemented, echoed, accepted or rejected.

test_openai_surface_leaves.py checks that none is missing, down to the last value.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, get_args, get_type_hints

import pytest
from openai.types.responses import Response
from openai.types.responses.response_includable import ResponseIncludable
from openai.types.responses.tool_choice_types_param import ToolChoiceTypesParam

from antiphon_core.jsons import Object
from antiphon_core.request.body import OUTPUT_LOGPROBS
from tests.support.http import Http
from tests.support.scripted_answers import LINE
from tests.support.scripted_system import MODEL, ScriptedSystem, scripted_system

UNSUPPORTED, UNSUPPORTED_VALUE, INVALID_VALUE = "unsupported_parameter", "unsupported_value", "invalid_value"
UNKNOWN = "resp_" + "0" * 48
CLOSED: Object = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
FUNCTION: Object = {"type": "function", "name": "f", "description": "d", "parameters": CLOSED, "strict": True}
LARK = {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}}
REGEX = {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}}
SCHEMA_FORMAT = {"type": "json_schema", "name": "n", "description": None, "schema": {"type": "object"}, "strict": False}


@pytest.fixture
async def system() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running


@pytest.fixture
def http(system: ScriptedSystem) -> Http:
    return system.http


async def created(http: Http, **members: Any) -> Object:
    answer = await http.create(**({"model": MODEL, "input": "Hi"} | members))
    assert answer.status == 200, answer.body
    response: Object = answer.json
    return response


async def refusal(http: Http, **members: Any) -> tuple[int, str | None, str | None]:
    answer = await http.create(**({"model": MODEL, "input": "Hi"} | members))
    return answer.status, answer.error["code"], answer.error["param"]


# ---- Members of a request ----

ECHOED: list[tuple[str, Any, Any]] = [
    (name, value, value)
    for name, value in (
        ("background", False),
        ("frequency_penalty", 0.5),
        ("instructions", "Be brief."),
        ("max_output_tokens", 1),
        ("max_tool_calls", 3),
        ("metadata", {"a": "b"}),
        ("model", MODEL),
        ("parallel_tool_calls", False),
        ("presence_penalty", -0.5),
        ("prompt_cache_key", "k"),
        ("prompt_cache_retention", "in_memory"),
        ("reasoning", {"effort": "low", "summary": None}),
        ("safety_identifier", "s" * 128),
        ("store", False),
        ("temperature", 2.0),
        ("text", {"format": {"type": "text"}, "verbosity": "medium"}),
        ("text", {"format": {"type": "json_object"}, "verbosity": "medium"}),
        ("text", {"format": SCHEMA_FORMAT, "verbosity": "medium"}),
        ("tool_choice", "none"),
        ("tools", [FUNCTION]),
        ("top_logprobs", 20),
        ("top_p", 0.5),
        ("truncation", "auto"),
        ("user", "u"),
    )
] + [
    (
        "prompt_cache_options",
        {"mode": "explicit", "comparison_response_id": "resp_1"},
        {"mode": "implicit", "comparison_response_id": "resp_1"},
    ),
    ("prompt_cache_options", {"ttl": "12h"}, {"mode": "implicit"}),  # the engine takes no lifetimes
    ("prompt_cache_retention", "24h", "in_memory"),
    ("reasoning", {"effort": "low", "context": "all_turns", "mode": "standard"}, {"effort": "low", "summary": None}),
    ("text", {"verbosity": "low"}, {"format": {"type": "text"}, "verbosity": "medium"}),
    *(("service_tier", tier, "default") for tier in "auto default flex scale priority fast ultrafast".split()),
]

ACCEPTED: list[tuple[str, Any]] = [
    ("background_options", {"completion_window": "soonest"}),
    ("client_metadata", {"a": 1}),
    ("context_management", [{"type": "compaction", "compact_threshold": 50_000}]),
    ("image", {}),
    ("image", {"context_compression": "auto"}),
    ("image", {"context_compression": "disabled"}),
    ("include", [each for each in get_args(ResponseIncludable) if each != OUTPUT_LOGPROBS]),
    ("input", "Hi"),
    ("input", [{"role": "user", "content": "Hi"}]),
    ("prompt_cache_options", {"prewarm": False}),
    ("reasoning", {"generate_summary": "concise", "effort": "max"}),
    ("reasoning", {"summary": "auto"}),  # with a model that reasons: test_reasoning_summary.py
    ("stream_options", {"include_obfuscation": True}),
]

REFUSED: list[tuple[str, Any, str, str]] = [
    ("access_programs", {}, UNSUPPORTED, "access_programs"),
    ("access_programs", {"cyber": "standard"}, UNSUPPORTED, "access_programs"),
    ("context_management", [{"type": "forgetting"}], INVALID_VALUE, "context_management[0].type"),
    ("generate", False, "unknown_parameter", "generate"),
    ("image", {"context_compression": "enabled"}, UNSUPPORTED_VALUE, "image.context_compression"),
    ("include", ["everything"], INVALID_VALUE, "include[0]"),
    ("include", [OUTPUT_LOGPROBS], UNSUPPORTED, "include"),  # the engine has no log probabilities
    ("max_output_tokens", 0, "integer_below_min_value", "max_output_tokens"),
    ("metadata", {"k" * 65: "v"}, "string_above_max_length", "metadata." + "k" * 65),
    ("moderation", {}, UNSUPPORTED, "moderation"),
    ("moderation", {"model": "omni"}, UNSUPPORTED, "moderation"),
    ("prompt", {}, "missing_required_parameter", "prompt.id"),
    ("prompt", {"id": "pmpt_1", "version": "latest"}, INVALID_VALUE, "prompt.version"),
    ("prompt_cache_options", {"mode": "some"}, INVALID_VALUE, "prompt_cache_options.mode"),
    ("prompt_cache_options", {"ttl": "1h"}, INVALID_VALUE, "prompt_cache_options.ttl"),
    ("prompt_cache_retention", "1h", INVALID_VALUE, "prompt_cache_retention"),
    ("previous_response_id", UNKNOWN, "previous_response_not_found", "previous_response_id"),
    ("reasoning", {"context": "none"}, INVALID_VALUE, "reasoning.context"),
    ("reasoning", {"effort": "huge"}, INVALID_VALUE, "reasoning.effort"),
    ("reasoning", {"mode": "pro"}, UNSUPPORTED_VALUE, "reasoning.mode"),
    ("reasoning", {"mode": "some"}, INVALID_VALUE, "reasoning.mode"),
    ("safety_identifier", "s" * 129, "string_above_max_length", "safety_identifier"),
    ("service_tier", "bogus", INVALID_VALUE, "service_tier"),
    ("stream_id", "lane", "unknown_parameter", "stream_id"),
    ("stream_options", {"include_usage": True}, "unknown_parameter", "stream_options.include_usage"),
    ("text", {"verbosity": "shy"}, INVALID_VALUE, "text.verbosity"),
    ("truncation", "some", INVALID_VALUE, "truncation"),
]


async def test_echoed_members_come_back_in_the_response(http: Http) -> None:
    for name, value, told in ECHOED:
        assert (await created(http, **{name: value}))[name] == told, name


async def test_accepted_members_do_not_change_the_answer(http: Http) -> None:
    for name, value in ACCEPTED:
        assert (await created(http, **{name: value}))["output"][0]["content"][0]["text"] == LINE, (name, value)


async def test_unsupported_members_are_rejected_by_name(http: Http) -> None:
    for name, value, code, param in REFUSED:
        assert await refusal(http, **{name: value}) == (400, code, param), (name, value)
    assert await refusal(http, model="nobody") == (404, "model_not_found", "model")


async def test_conversation_previous_response_and_background_are_echoed(http: Http) -> None:
    conversation = (await http.post("/v1/conversations", {})).json
    told = await created(http, conversation=conversation["id"])
    assert told["conversation"] == {"id": conversation["id"]}
    assert (await created(http, conversation={"id": conversation["id"]}))["conversation"] == told["conversation"]
    assert (await created(http, previous_response_id=told["id"]))["previous_response_id"] == told["id"]
    both = await refusal(http, conversation=conversation["id"], previous_response_id=told["id"])
    assert both[:2] == (400, "mutually_exclusive_parameters")
    queued = await created(http, background=True)
    assert (queued["status"], queued["background"]) == ("queued", True)


async def test_a_response_has_every_member_except_the_omitted_ones(http: Http) -> None:
    omitted = {
        "access_programs",
        "conversation",
        "image",
        "input_transformations",
        "moderation",
        "prompt",
        "prompt_cache_diagnostics",
        "prompt_cache_options",
        "tool_usage",
    }
    told = await created(http)
    assert set(Response.model_fields) - set(told) == omitted
    assert told["usage"]["input_tokens_details"]["cache_write_tokens"] == 0
    again = await http.get(f"/v1/responses/{told['id']}?include_obfuscation=false&beta=true")
    assert (again.status, again.json) == (200, told)


# ---- Items ----

USER = {"role": "user", "content": "Hi"}
ACTION: Object = {"type": "search", "query": "q"}
OUTPUT_TEXT = {"type": "output_text", "text": "x", "annotations": []}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}
SEARCH_CALL = {"type": "tool_search_call", "arguments": {}, "call_id": "ts", "execution": "client"}
PARTS = [{"type": "input_text", "text": "x"}]

MCP: Object = {"arguments": "{}", "name": "f", "server_label": "s"}
TAKEN: list[list[Object]] = [
    [USER],
    [{"type": "message", "role": "user", "content": PARTS, "status": "completed"}],
    [{"type": "message", "id": "m", "role": "assistant", "content": [OUTPUT_TEXT], "phase": "commentary"}],
    [{"type": "file_search_call", "id": "fs_1", "queries": ["q"], "status": "completed", "results": None}],
    [{"type": "web_search_call", "id": "ws_1", "action": ACTION, "status": "completed"}],
    [CALL | {"namespace": "n"}, {"type": "function_call_output", "call_id": "c", "output": "x"}],
    [CALL, {"type": "function_call_output", "call_id": "c", "output": PARTS}],
    [{"type": "tool_search_call", "arguments": {}, "call_id": None, "execution": "server"}],
    [{"type": "tool_search_output", "tools": [FUNCTION], "call_id": "ts"}],
    [SEARCH_CALL, {"type": "tool_search_output", "tools": [FUNCTION], "call_id": "ts", "execution": "client"}],
    [{"type": "additional_tools", "role": "developer", "tools": [FUNCTION]}],
    [{"type": "configuration_update", "reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}}}],
    [{"type": "reasoning", "id": "rs_1", "summary": []}],
    [{"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []}],
    [MCP | {"type": "mcp_call", "id": "mc_1", "output": "x"}],
    [
        MCP | {"type": "mcp_approval_request", "id": "mr_1"},
        {"type": "mcp_approval_response", "approval_request_id": "mr_1", "approve": False},
    ],
    [CUSTOM_CALL, {"type": "custom_tool_call_output", "call_id": "c", "output": "x"}],
    [CUSTOM_CALL, {"type": "custom_tool_call_output", "call_id": "c", "output": PARTS}],
]
"""Input items that are part of a turn, or are skipped in it; a message follows."""

TURNED_AWAY: list[Object] = [
    {"type": "code_interpreter_call", "id": "ci_1", "container_id": "k", "status": "completed"},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed"},
    {"type": "program", "id": "p_1", "call_id": "c", "code": "x", "fingerprint": "y"},
    {"type": "program_output", "id": "po_1", "call_id": "c", "result": "x", "status": "completed"},
]


async def test_supported_items_are_accepted_and_listed(http: Http) -> None:
    for items in TAKEN:
        told = await created(http, input=[*items, USER])
        listed = (await http.get(f"/v1/responses/{told['id']}/input_items?order=asc")).json["data"]
        assert [item["type"] for item in listed] == [item.get("type", "message") for item in (*items, USER)]


async def test_unsupported_items_are_rejected_by_name(http: Http) -> None:
    for item in TURNED_AWAY:
        assert await refusal(http, input=[USER, item]) == (400, UNSUPPORTED_VALUE, "input[1]"), item["type"]


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
async def test_tools_in_items_can_be_called(http: Http, kind: str) -> None:
    told = await created(http, input=[{"type": kind, "role": "developer", "call_id": "t", "tools": [FUNCTION]}, USER])
    assert (told["output"][0]["type"], told["output"][0]["name"]) == ("function_call", "f")


async def test_compaction_items_and_item_references_are_accepted(http: Http) -> None:
    context = [USER, {"role": "assistant", "content": "Hello."}]
    compacted = (await http.post("/v1/responses/compact", {"model": MODEL, "input": context, "image": {}})).json
    assert [item["type"] for item in compacted["output"]] == ["message", "compaction"]
    await created(http, input=[*compacted["output"], USER])
    triggered = await created(http, input=[*context, {"type": "compaction_trigger"}])
    assert [item["type"] for item in triggered["output"]] == ["compaction"]
    told = await created(http)
    for kind in ({"type": "item_reference"}, {"type": None}, {}):
        await created(http, input=[kind | {"id": told["output"][0]["id"]}, USER])
    missing = await http.create(model=MODEL, input=[{"id": "rs_1"}, USER])
    assert (missing.status, missing.error["code"], missing.error["param"]) == (404, None, "input")


# ---- Tools ----

SHOWN: list[Object] = [
    FUNCTION,
    {"type": "custom", "name": "f"},
    {"type": "custom", "name": "f", "format": {"type": "text"}},
    LARK | {"name": "f"},
    REGEX | {"name": "f"},
    {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION]},
]
HOSTED: list[Object] = [
    {"type": "tool_search"},
    {"type": "tool_search", "execution": "server"},
    {"type": "web_search", "external_web_access": True},
    {"type": "web_search_2025_08_26"},
    {"type": "web_search_preview"},
    {"type": "web_search_preview_2025_03_11"},
    {"type": "code_interpreter", "container": "auto"},
    {"type": "computer_use_preview", "display_height": 1, "display_width": 1, "environment": "linux"},
    {"type": "file_search", "vector_store_ids": ["vs_1"]},
    {"type": "image_generation"},
    {"type": "mcp", "server_label": "s", "server_url": "https://example.com"},
    {"type": "programmatic_tool_calling"},
]


async def test_supported_tools_can_be_called_and_are_echoed(http: Http) -> None:
    for tool in SHOWN:
        told = await created(http, tools=[tool])
        called = told["output"][0]
        kind = "custom_tool_call" if tool["type"] == "custom" else "function_call"
        assert (called["type"], called["name"], called.get("namespace")) == (kind, "f", tool.get("tools") and "n")
        assert told["tools"] == [tool]


async def test_hosted_tools_are_rejected_by_name(http: Http) -> None:
    for tool in HOSTED:
        assert await refusal(http, tools=[tool]) == (400, UNSUPPORTED_VALUE, "tools[0]"), tool["type"]
        item = {"type": "additional_tools", "tools": [tool]}
        assert await refusal(http, input=[item, USER]) == (400, UNSUPPORTED_VALUE, "input[0].tools[0]"), tool["type"]


async def test_tool_choices_are_applied_or_rejected(http: Http) -> None:
    function = {"type": "function", "name": "f"}
    for choice in ("required", function, {"type": "allowed_tools", "mode": "required", "tools": [function]}):
        told = await created(http, tools=[FUNCTION], tool_choice=choice)
        assert (told["output"][0]["type"], told["tool_choice"]) == ("function_call", choice)
    for kind in {
        *get_args(get_type_hints(ToolChoiceTypesParam)["type"]),
        "mcp",
        "programmatic_tool_calling",
    } - {"computer"}:
        choice = {"type": kind, "server_label": "s"}
        assert await refusal(http, tool_choice=choice) == (400, UNSUPPORTED_VALUE, "tool_choice"), kind
    absent = {"type": "custom", "name": "g"}
    assert await refusal(http, tools=[FUNCTION], tool_choice=absent) == (400, INVALID_VALUE, "tool_choice")


async def test_a_forced_regex_grammar_is_applied_and_a_lark_grammar_rejected(system: ScriptedSystem) -> None:
    choice = {"type": "custom", "name": "c"}
    assert await refusal(system.http, tools=[LARK], tool_choice=choice) == (400, UNSUPPORTED_VALUE, "tool_choice")
    assert await refusal(system.http, tools=[LARK], tool_choice="required") == (400, UNSUPPORTED_VALUE, "tool_choice")
    await created(system.http, tools=[REGEX], tool_choice=choice)
    guide = system.model.requests[-1].guide
    assert guide is not None
    assert '"pattern":"^(a+)$"' in guide.text


@pytest.mark.parametrize(
    ("form", "code", "param"),
    [
        ({}, "missing_required_parameter", "tools[0].format.type"),
        ({"type": "x"}, INVALID_VALUE, "tools[0].format.type"),
        ({"type": "grammar", "syntax": "ebnf", "definition": "a"}, INVALID_VALUE, "tools[0].format.syntax"),
        ({"type": "grammar", "syntax": "regex", "definition": "("}, INVALID_VALUE, "tools[0].format.definition"),
    ],
)
async def test_an_invalid_custom_tool_format_is_rejected_by_name(
    http: Http, form: Object, code: str, param: str
) -> None:
    assert await refusal(http, tools=[LARK | {"format": form}]) == (400, code, param)


# ---- Other routes with such a body ----


async def test_tokens_are_counted_without_new_input(http: Http) -> None:
    async def count(**members: Any) -> int:
        answer = await http.post("/v1/responses/input_tokens", {"model": MODEL} | members)
        assert answer.status == 200, answer.body
        return int(answer.json["input_tokens"])

    conversation = (await http.post("/v1/conversations", {"items": [USER]})).json["id"]
    alone = await count(input="Hi", personality="friendly")
    assert await count(conversation=conversation) == alone
    told = await created(http, input="Hi")
    assert await count(previous_response_id=told["id"], input=None) > alone


async def test_image_compression_for_a_compaction_is_rejected(http: Http) -> None:
    body = {"model": MODEL, "input": "Hi", "image": {"context_compression": "enabled"}}
    answer = await http.post("/v1/responses/compact", body)
    assert (answer.status, answer.error["param"]) == (400, "image.context_compression")
