from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import ResponsePrompt

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.limits import PROMPT_MESSAGES_ITEMS_MAX
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.prompts import PromptRef, PutPrompt

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}
FILE = {"type": "input_file", "file_data": "data:text/plain;base64,QQ==", "filename": "a.txt"}


def parse(**members: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "prompt": {"id": "pmpt_1"} | members}))


def test_a_reference_has_the_members_of_the_sdk() -> None:
    assert set(PromptRef.model_fields) == set(ResponsePrompt.model_fields)


def test_a_request_with_a_prompt_needs_no_input() -> None:
    request = parse(version="2", variables={"a": "x", "b": {"type": "input_text", "text": "y"}, "c": IMAGE, "d": FILE})
    assert request.input == []
    assert request.prompt is not None
    assert request.prompt.values["a"] == "x"
    assert request.prompt.values["b"] == {"type": "input_text", "text": "y"}
    assert (request.prompt.values["c"], request.prompt.values["d"]) == (IMAGE, FILE)
    assert request.as_json()["prompt"]["variables"]["c"] == IMAGE
    with pytest.raises(InvalidRequest) as raised:
        CreateRequest.parse(dumps({"model": "m", "prompt": None}))
    assert raised.value.field == "input"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"version": 2}, "prompt.version"),
        ({"version": "0"}, "prompt.version"),
        ({"version": "latest"}, "prompt.version"),
        ({"variables": {"a": 1}}, "prompt.variables.a"),
        ({"variables": {"a": {"type": "output_text", "text": "x"}}}, "prompt.variables.a"),
        ({"variables": {"a": {"type": "input_image"}}}, "prompt.variables.a.image_url"),
        ({"variables": {"a": {"type": "input_image", "file_id": "f", "image_url": "x"}}}, "prompt.variables.a.file_id"),
        ({"other": 1}, "prompt.other"),
    ],
)
def test_an_invalid_prompt_reference_is_rejected_with_its_path(members: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(**members)
    assert raised.value.field == field


def test_a_prompt_is_stored_as_it_was_written_without_ids() -> None:
    message = {"role": "user", "content": [{"type": "input_text", "text": "a"}]}
    put = PutPrompt.parse(dumps({"instructions": "i", "input": [message | {"id": "msg_1", "status": "completed"}]}))
    assert put.content == {"instructions": "i", "input": [message]}
    assert PutPrompt.parse(dumps({"input": [{"role": "user", "content": "a"}]})).content == {
        "input": [{"role": "user", "content": "a"}]
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "instructions"),
        ({"input": []}, "instructions"),
        ({"instructions": ""}, "instructions"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": "a"}] * (PROMPT_MESSAGES_ITEMS_MAX + 1)}, "input"),
        ({"model": "m", "instructions": "i"}, "model"),
    ],
)
def test_an_invalid_stored_prompt_is_rejected_with_its_path(body: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        PutPrompt.parse(dumps(body))
    assert raised.value.field == field
