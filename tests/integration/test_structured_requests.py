"""Requests for structured output through edge and translator, over HTTP: rejected schemas, and the echoed format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.served_models import END_ID, model, tokenizer

SCHEMA: Object = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ANSWER = '{"city":"Rome"}'


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    """A server whose model always gives one answer."""
    engine = ScriptedEngine([Emit([*tokenizer().encode(ANSWER), END_ID])], controls=ALL_CONTROLS | {"guide"})
    async with running((model(), engine)) as system:
        yield system.http


def asking_for(schema: Any, **members: Any) -> Object:
    text = {"format": {"type": "json_schema", "name": "place", "schema": schema, "strict": True} | members}
    return {"model": "m", "input": "Where?", "text": text}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("request_", "message", "param", "code"),
    [
        (
            asking_for(SCHEMA | {"required": []}),
            "Invalid schema for response_format 'place': In context=(), 'required' is required to be supplied and to "
            "be an array including every key in properties. Missing 'city'.",
            "text.format.schema",
            "invalid_json_schema",
        ),
        (
            asking_for({"$ref": "http://127.0.0.1:9/schema"}, strict=False),
            "Invalid schema for response_format 'place': In context=('$ref',), '$ref' must refer to a place in the "
            "schema itself, like '#/$defs/name'. Other documents are not retrieved.",
            "text.format.schema",
            "invalid_json_schema",
        ),
        (
            {
                "model": "m",
                "input": "Where?",
                "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
            },
            "Invalid schema for function 'f': In context=(), 'additionalProperties' is required to be supplied and to "
            "be false.",
            "tools[0].parameters",
            "invalid_function_parameters",
        ),
        (
            {"model": "m", "input": "Where?", "text": {"format": {"type": "json_schema", "json_schema": {}}}},
            "Unknown parameter: 'text.format.json_schema'. In the Responses API its members ('name', 'schema', "
            "'strict', 'description') stand in 'text.format' itself.",
            "text.format.json_schema",
            "unknown_parameter",
        ),
    ],
)
async def test_a_bad_schema_is_a_400(
    http: Http, request_: Object, message: str, param: str, code: str, stream: bool
) -> None:
    answer = await http.create(**request_, stream=stream)
    assert answer.status == 400
    assert answer.json == {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


async def test_the_response_format_is_echoed_and_stored(http: Http) -> None:
    answer = await http.create(**asking_for(SCHEMA))
    assert answer.status == 200, answer.body
    assert answer.json["text"]["format"] == {
        "type": "json_schema",
        "name": "place",
        "description": None,
        "schema": SCHEMA,
        "strict": True,
    }
    assert answer.json["output"][0]["content"][0]["text"] == ANSWER
    assert (await http.get(f"/v1/responses/{answer.json['id']}")).json["text"] == answer.json["text"]


async def test_a_schema_nested_without_end_is_a_400(http: Http) -> None:
    nested = b'{"items":' * 3_000 + b"{}" + b"}" * 3_000
    body = b'{"model":"m","input":"x","text":{"format":{"type":"json_schema","name":"n","schema":' + nested + b"}}}"
    answer = await http.post("/v1/responses", body)
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
