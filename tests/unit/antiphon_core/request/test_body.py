from __future__ import annotations

from typing import Any, get_args

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.limits import ITEM_ID_CHARS_MAX
from antiphon_core.request.body import CountRequest, CreateRequest, Include, Parameters


def parse(**members: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": "x"} | members))


def test_asked_contains_only_the_given_members() -> None:
    request = parse(temperature=0, store=False, metadata={"a": "b"}, user=None)
    assert request.as_json() == {"model": "m", "temperature": 0.0, "store": False, "metadata": {"a": "b"}}


def test_input_items_are_kept_as_the_client_wrote_them() -> None:
    items = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
            ],
            "z": 1,
        }
    ]
    assert parse(input=items).input_given == items


UNSUPPORTED = "unsupported_parameter"


@pytest.mark.parametrize(
    "members",
    [
        {"include": list(get_args(Include)), "top_logprobs": 2},
        {"include": [], "tools": [], "tool_choice": "auto", "client_metadata": {"a": 1}, "stream_options": {}},
        {"reasoning": {"effort": "none", "summary": "auto"}, "text": {"format": {"type": "text"}, "verbosity": "low"}},
        {"text": {"format": {"type": "json_object"}}},
        {"max_output_tokens": 1, "service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "s"},
        {"input": [{"type": "message", "role": "developer", "content": "x", "id": "msg_1", "status": "completed"}]},
        {"input": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]},
        {"input": []},
        {"image": {"context_compression": "auto"}},
        {"image": {"context_compression": "disabled"}},
        {"prompt_cache_options": {"mode": "explicit", "prewarm": False}},
        {"reasoning": {"effort": "low", "context": "all_turns", "mode": "standard", "generate_summary": "auto"}},
        {"stream_options": {"include_obfuscation": False}, "stream": True},
    ],
)
def test_members_that_known_clients_send_are_accepted(members: dict[str, Any]) -> None:
    parse(**members)


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"tools": [{"type": "mcp"}]}, "tools[0]", "unsupported_value"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice", "unsupported_value"),
        ({"prompt": {}}, "prompt.id", "missing_required_parameter"),
        ({"moderation": {}}, "moderation", "unsupported_parameter"),
        ({"access_programs": {}}, "access_programs", "unsupported_parameter"),
        ({"image": {"context_compression": "enabled"}}, "image.context_compression", "unsupported_value"),
        ({"image": {"compression": "auto"}}, "image.compression", "unknown_parameter"),
        ({"prompt_cache_options": {"ttl": "1h"}}, "prompt_cache_options.ttl", "invalid_value"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode", "unsupported_value"),
        (
            {"background_options": {"completion_window": "2h"}},
            "background_options.completion_window",
            "unsupported_value",
        ),
        ({"background_options": {"continuation_id": "c"}}, "background_options.continuation_id", UNSUPPORTED),
        ({"dropped_tools": []}, "dropped_tools", "unknown_parameter"),
        ({"reasoning": {"context": "some"}}, "reasoning.context", "invalid_value"),
        ({"reasoning": {"mode": "fast"}}, "reasoning.mode", "invalid_value"),
        ({"reasoning": {"max_tokens": 5}}, "reasoning.max_tokens", "unknown_parameter"),
        ({"text": {"verbose": True}}, "text.verbose", "unknown_parameter"),
        ({"service_tier": "bogus"}, "service_tier", "invalid_value"),
        ({"stream_options": {"include_usage": True}}, "stream_options.include_usage", "unknown_parameter"),
    ],
)
def test_an_unsupported_or_unknown_member_is_rejected_by_name(members: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**members)
    assert (caught.value.field, caught.value.code) == (field, code)


def test_too_many_include_values_are_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(include=["reasoning.encrypted_content"] * (limits.INCLUDE_ITEMS_MAX + 1))
    assert caught.value.field == "include"


def test_an_unknown_include_value_is_rejected_with_the_known_values() -> None:
    with pytest.raises(InvalidRequest, match="'message.output_text.logprobs'") as caught:
        parse(include=["reasoning.encrypted_content", "message.output_text.logprob"])
    assert (caught.value.field, caught.value.code) == ("include[1]", "invalid_value")


def test_parameters_travel_without_input() -> None:
    asked = parse(temperature=0.5).as_json()
    assert Parameters.parse(dumps(asked)).as_json() == asked
    with pytest.raises(InvalidRequest, match="Unknown parameter: 'input'"):
        Parameters.parse(dumps(asked | {"input": "x"}))


@pytest.mark.parametrize("members", [{}, {"input": None}])
def test_a_count_request_needs_no_input(members: dict[str, Any]) -> None:
    request = CountRequest.parse(dumps({"model": "m", "previous_response_id": "resp_1", "personality": "x"} | members))
    assert request.input_given == []
    assert request.as_json() == {"model": "m", "previous_response_id": "resp_1"}


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"input": 42}, "input", "invalid_type"),
        ({"personality": "x" * 65}, "personality", "string_above_max_length"),
        ({"prompt": {}}, "prompt.id", "missing_required_parameter"),
    ],
)
def test_a_count_request_is_validated_like_a_create_request(members: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        CountRequest.parse(dumps({"model": "m"} | members))
    assert (caught.value.field, caught.value.code) == (field, code)


@pytest.mark.parametrize("absent", [{}, {"input": None}])
def test_an_absent_input_with_a_prompt_is_empty(absent: dict[str, Any]) -> None:
    assert CreateRequest.parse(dumps({"model": "m", "prompt": {"id": "pmpt_1"}} | absent)).input_given == []
    with pytest.raises(InvalidRequest) as raised:
        CreateRequest.parse(dumps({"model": "m"} | absent))
    assert raised.value.field == "input"


ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "x"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
    {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
    {"type": "reasoning"},
    {"type": "additional_tools", "tools": []},
    {"type": "compaction", "encrypted_content": "x"},
    {"type": "compaction_trigger"},
    {"type": "configuration_update"},
    {"type": "web_search_call"},
    {"type": "acme:note"},
    {"type": "item_reference"},
    {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
    {"type": "shell_call_output", "call_id": "c", "output": []},
    {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
    {"type": "local_shell_call_output", "output": "x"},
    {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"},
    {"type": "computer_call", "call_id": "c"},
    {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,"},
    },
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.get("type", "message"))
def test_the_id_of_every_item_has_a_limit(item: dict[str, Any]) -> None:
    CreateRequest.parse(dumps({"model": "m", "input": [item | {"id": "x" * ITEM_ID_CHARS_MAX}]}))
    with pytest.raises(InvalidRequest) as raised:
        CreateRequest.parse(dumps({"model": "m", "input": [item | {"id": "x" * (ITEM_ID_CHARS_MAX + 1)}]}))
    assert (raised.value.field, raised.value.code) == ("input[0].id", "string_above_max_length")
