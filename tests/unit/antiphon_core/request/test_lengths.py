from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import CountRequest, CreateRequest
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.prompts import PutPrompt
from antiphon_edge.chat.body import ChatRequest
from antiphon_edge.conversation_requests import AddItems, CreateConversation, ForkSession, UpdateConversation

BODIES: tuple[type[BaseModel], ...] = (
    CreateRequest,
    CountRequest,
    ChatRequest,
    CreateConversation,
    UpdateConversation,
    AddItems,
    ForkSession,
    PutPrompt,
)
MANY = 90_000
FINDINGS_MAX = limits.MEMBERS_ITEMS_MAX
"""How many findings pydantic may make of one request. Each takes 2 to 5 us, with the GIL held."""
CREATE: Object = {"model": "m", "input": "hi"}
CHAT: Object = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


class Lists(BaseModel):
    texts: Annotated[list[str], Field(min_length=1), AtMost(3)] = ["x"]
    pairs: Annotated[dict[str, str], AtMost(3)] = {}


def findings_of(given: Object) -> list[Any]:
    with pytest.raises(ValidationError) as caught:
        Lists.model_validate(given)
    return caught.value.errors()


@pytest.mark.parametrize("given", [{"texts": [0] * 4}, {"pairs": dict.fromkeys("abcd", 0)}])
def test_length_is_checked_before_the_elements(given: Object) -> None:
    (finding,) = findings_of(given)
    assert (finding["type"], finding["ctx"]["actual_length"]) == ("too_long", 4)


def test_validation_of_a_list_ends_with_its_first_finding() -> None:
    assert [finding["loc"] for finding in findings_of({"texts": ["x", 0, 1]})] == [("texts", 1)]


@pytest.mark.parametrize(
    ("given", "kind"), [({"texts": []}, "too_short"), ({"texts": "four"}, "list_type"), ({"pairs": [1]}, "dict_type")]
)
def test_other_findings_are_those_of_pydantic(given: Object, kind: str) -> None:
    assert [finding["type"] for finding in findings_of(given)] == [kind]


def test_limit_is_in_the_json_schema() -> None:
    members = Lists.model_json_schema()["properties"]
    assert (members["texts"]["minItems"], members["texts"]["maxItems"]) == (1, 3)
    assert members["pairs"]["maxProperties"] == 3


def nodes_of(schema: Any) -> Iterator[Object]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list | tuple):
            waiting.extend(node)


@pytest.mark.parametrize("body", BODIES)
def test_every_array_and_map_of_a_body_has_a_limit(body: type[BaseModel]) -> None:
    """Except objects with values of any type, which are not validated."""
    body.model_rebuild(force=True)
    nodes = list(nodes_of(body.__pydantic_core_schema__))
    assert [node for node in nodes if node.get("type") == "model"]
    for node in nodes:
        if node.get("type") == "list":
            assert (node.get("max_length") is not None, node.get("fail_fast")) == (True, True), node
        if node.get("type") == "dict" and node["values_schema"]["type"] != "any":
            assert node.get("max_length") is not None, node


def many(**members: Any) -> Object:
    return {f"x{number}": 0 for number in range(MANY)} | members


def with_tool(**members: Any) -> Object:
    return CREATE | {"tools": [members]}


def with_item(**members: Any) -> Object:
    return CREATE | {"input": [members]}


SKILLS: Object = {"type": "local", "skills": [{}] * 60_000}
ALLOWED: Object = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [0] * MANY}}
COSTLY: dict[str, tuple[type[Any], Object, str | None]] = {
    "members": (CreateRequest, many(**CREATE), None),
    "metadata": (CreateRequest, CREATE | {"metadata": many()}, "metadata"),
    "stop": (CreateRequest, CREATE | {"stop": ["x"] * MANY}, "stop"),
    "include": (CreateRequest, CREATE | {"include": ["x"] * MANY}, "include"),
    "text": (CreateRequest, CREATE | {"text": many()}, "text"),
    "nvext": (CreateRequest, CREATE | {"nvext": many()}, "nvext"),
    "choices": (CreateRequest, CREATE | {"nvext": {"guided_choice": [0] * MANY}}, "nvext.guided_choice"),
    "variables": (CreateRequest, CREATE | {"prompt": {"id": "p", "variables": many()}}, "prompt.variables"),
    "tools": (CreateRequest, CREATE | {"tools": [{}] * 5_000}, "tools"),
    "callers": (
        CreateRequest,
        with_tool(type="function", name="f", allowed_callers=["x"] * MANY),
        "tools[0].allowed_callers",
    ),
    "skills": (CreateRequest, with_tool(type="shell", environment=SKILLS), "tools[0].environment.skills"),
    "parts": (CreateRequest, with_item(role="user", content=[0] * MANY), "input[0].content"),
    "thoughts": (CreateRequest, with_item(type="reasoning", summary=[0] * MANY), "input[0].summary"),
    "commands": (
        CreateRequest,
        with_item(type="shell_call", call_id="c", action={"commands": [0] * MANY}),
        "input[0].action.commands",
    ),
    "members of a chat": (ChatRequest, many(**CHAT), None),
    "stop of a chat": (ChatRequest, CHAT | {"stop": [0] * MANY}, "stop"),
    "functions": (ChatRequest, CHAT | {"functions": [0] * MANY}, "functions"),
    "modalities": (ChatRequest, CHAT | {"modalities": [0] * MANY}, "modalities"),
    "allowed tools": (ChatRequest, CHAT | {"tool_choice": ALLOWED}, "tool_choice.allowed_tools.tools"),
    "metadata of a conversation": (CreateConversation, {"metadata": many()}, "metadata"),
}


def rejection_of(body: type[Any], given: Object) -> InvalidRequest:
    """The rejection of a body, after a validation with few findings."""
    with pytest.raises(InvalidRequest) as caught:
        body.parse(dumps(given))
    cause = caught.value.__cause__
    assert isinstance(cause, ValidationError)
    assert cause.error_count() <= FINDINGS_MAX
    return caught.value


@pytest.mark.parametrize("case", COSTLY)
def test_long_array_or_object_is_rejected_with_its_field_its_length_and_the_limit(case: str) -> None:
    body, given, field = COSTLY[case]
    error = rejection_of(body, given)
    assert error.field == field
    assert "must have at most " in error.message
    assert ", but has " in error.message


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (CreateRequest, CREATE | {"input": [{"role": "user", "content": [0] * 40}] * 4_000}),
        (CreateRequest, CREATE | {"input": [{"role": "x"}] * 4_000}),
        (ChatRequest, CHAT | {"messages": [{"role": "user", "content": [{}] * 20}] * 4_000}),
    ],
)
def test_wrong_elements_within_the_limits_make_few_findings(body: type[Any], given: Object) -> None:
    rejection_of(body, given)


def test_requests_far_beyond_the_ordinary_are_accepted() -> None:
    tools: list[Object] = [{"type": "function", "name": f"tool-{number}", "parameters": {}} for number in range(500)]
    values = [f"value {number}" for number in range(5_000)]
    tools.append({"type": "function", "name": "choose", "parameters": {"properties": {"value": {"enum": values}}}})
    message = {"role": "user", "content": [{"type": "input_text", "text": "a line"}] * 2_000}
    request = CreateRequest.parse(dumps(CREATE | {"input": [message] * 10, "tools": tools}))
    assert request.tools is not None
    assert len(request.tools) == 501
