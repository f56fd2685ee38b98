from __future__ import annotations

from typing import Any, get_args

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request import CreateRequest, Include, Parameters


def parse(**members: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": "x"} | members))


def test_only_what_was_given_is_asked() -> None:
    request = parse(temperature=0, store=False, metadata={"a": "b"}, user=None)
    assert request.asked() == {"model": "m", "temperature": 0.0, "store": False, "metadata": {"a": "b"}}


def test_input_items_are_kept_as_the_client_wrote_them() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "x", "prompt_cache_breakpoint": True}], "z": 1}
    ]
    assert parse(input=items).input_given == items


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
    ],
)
def test_what_measured_clients_send_is_accepted(members: dict[str, Any]) -> None:
    parse(**members)


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"tools": [{"type": "mcp"}]}, "tools[0]", "unsupported_value"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice", "unsupported_value"),
        ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
    ],
)
def test_nothing_asked_for_is_dropped_in_silence(members: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**members)
    assert (caught.value.field, caught.value.code) == (field, code)


def test_what_cannot_be_included_is_refused_with_what_can() -> None:
    with pytest.raises(InvalidRequest, match="'message.output_text.logprobs'") as caught:
        parse(include=["reasoning.encrypted_content", "message.output_text.logprob"])
    assert (caught.value.field, caught.value.code) == ("include[1]", "invalid_value")


def test_parameters_travel_without_input() -> None:
    asked = parse(temperature=0.5).asked()
    assert Parameters.parse(dumps(asked)).asked() == asked
    with pytest.raises(InvalidRequest, match="Unknown parameter: 'input'"):
        Parameters.parse(dumps(asked | {"input": "x"}))
