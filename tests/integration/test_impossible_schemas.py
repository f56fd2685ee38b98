"""Schemas that nothing matches, and boolean schemas, wherever a client can send a schema, through the whole system."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from antiphon_core.jsons import Object, loads
from tests.support.scripted_system import MODEL, ScriptedSystem, scripted_system

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def system() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running


def of(x: Any) -> Object:
    return {"type": "object", "properties": {"x": x}, "required": ["x"], "additionalProperties": False}


def in_format(schema: Object) -> tuple[str, Object]:
    format = {"type": "json_schema", "name": "p", "schema": schema}  # noqa: A001 - the name in the API
    return "/v1/responses", {"input": "Hi", "text": {"format": format}}


def in_tool(schema: Object) -> tuple[str, Object]:
    return "/v1/responses", {"input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": schema}]}


def in_forced_tool(schema: Object) -> tuple[str, Object]:
    path, body = in_tool(schema)
    return path, body | {"tool_choice": "required"}


def in_extension(schema: Object) -> tuple[str, Object]:
    return "/v1/responses", {"input": "Hi", "nvext": {"guided_json": schema}}


def in_chat_format(schema: Object) -> tuple[str, Object]:
    format = {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}  # noqa: A001
    return "/v1/chat/completions", {"messages": MESSAGES, "response_format": format}


def in_chat_tool(schema: Object) -> tuple[str, Object]:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    return "/v1/chat/completions", {"messages": MESSAGES, "tools": [tool]}


Place = Callable[[Object], tuple[str, Object]]
PLACES = [in_format, in_tool, in_forced_tool, in_extension, in_chat_format, in_chat_tool]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (of({"type": "integer", "minimum": 5, "maximum": 1}), "('properties', 'x', 'minimum')"),
        (of({"enum": []}), "('properties', 'x', 'enum')"),
        (of(False), "('properties', 'x')"),
    ],
)
@pytest.mark.parametrize("strict", [None, False])
async def test_schema_that_nothing_matches_is_rejected_with_its_path(
    system: ScriptedSystem, place: Place, schema: Object, path: str, strict: bool | None
) -> None:
    url, body = place(schema)
    _set_strict(body, strict)
    answer = await system.http.post(url, {"model": MODEL} | body)
    assert answer.status == 400, answer.body
    assert f"In context={path}" in answer.error["message"]


@pytest.mark.parametrize("place", PLACES)
async def test_true_stands_for_any_value(system: ScriptedSystem, place: Place) -> None:
    url, body = place(of(True))
    answer = await system.http.post(url, {"model": MODEL} | body)
    assert answer.status == 200, answer.body


async def test_guide_is_normal_and_the_echo_is_as_sent(system: ScriptedSystem) -> None:
    schema = of({"allOf": [{"type": "string"}, True]}) | {
        "properties": {"x": {"allOf": [{"type": "string"}]}, "y": True}
    }
    url, body = in_format(schema)
    answer = await system.http.post(url, {"model": MODEL} | body)
    assert answer.json["text"]["format"]["schema"] == schema
    guide = system.model.requests[-1].guide
    assert guide is not None
    assert loads(guide.text)["properties"] == {"x": {"type": "string"}, "y": {}}


def _set_strict(value: Any, strict: bool | None) -> None:
    """Sets `strict` beside each schema, where the API has it."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _set_strict(each, strict)
    if (
        strict is not None
        and isinstance(value, dict)
        and "name" in value
        and ("schema" in value or "parameters" in value)
    ):
        value["strict"] = strict
