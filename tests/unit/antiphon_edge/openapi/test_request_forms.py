"""The schemas of requests agree with the validation of requests."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import CreateRequest
from antiphon_edge.openapi import request_forms
from antiphon_edge.operations.forms import PATH


@cache
def schemas() -> Object:
    """All schemas, cached because building them takes a tenth of a second."""
    return dict(request_forms.schemas())


def accepts(name: str, body: Object) -> bool:
    schema: Object = {"$ref": PATH + name, "components": {"schemas": schemas()}}
    return jsonschema_rs.validator_for(schema).is_valid(body)


FUNCTION = {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"input": [{"role": "user", "content": "Hi"}]},
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"temperature": None, "stop": ["a"], "metadata": {"a": "b"}},
    ],
)
def test_accepted_request_matches_the_schema(members: Object) -> None:
    body = {"model": "m", "input": "hi"} | members
    CreateRequest.parse(dumps(body))
    assert accepts("CreateRequest", body)


@pytest.mark.parametrize(
    "members",
    [
        {"input": 42},
        {"temperature": 3},
        {"unknown": 1},
        {"tools": [{"type": "function", "name": "no spaces"}]},
        {"input": [{"type": "message", "role": "nobody", "content": "Hi"}]},
        {"tool_choice": "perhaps"},
        {"max_output_tokens": 0},
    ],
)
def test_rejected_request_does_not_match_the_schema(members: Object) -> None:
    body: dict[str, Any] = {"model": "m", "input": "hi"} | members
    with pytest.raises(InvalidRequest):
        CreateRequest.parse(dumps(body))
    assert not accepts("CreateRequest", body)


def test_count_request_matches_its_schema_without_input() -> None:
    assert accepts("CountRequest", {"model": "m", "previous_response_id": "resp_1", "personality": "friendly"})
    assert not accepts("CountRequest", {"model": "m", "input": 42})
    assert not accepts("CreateRequest", {"model": "m"})


def test_every_body_has_a_schema_without_titles_and_null_defaults() -> None:
    assert {body.__name__ for body in request_forms.BODIES} <= set(schemas())
    text = dumps(schemas())
    assert b'"title":"' not in text
    assert b'"default":null' not in text
