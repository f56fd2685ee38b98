"""Tools that OpenAI defines and the client runs, through the official SDK: a model calls a function, the client gets
the item that it knows, and the next turn reads the output."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from tests.support.images import PNG, data_url
from tests.support.prompts import images_in
from tests.support.scripted_answers import ARGUMENTS
from tests.support.scripted_system import MODEL, SEER, ScriptedSystem, scripted_system

LINES = {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
COMPUTER: Any = {"type": "computer"}


@pytest.fixture
async def system() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running


@pytest.fixture
async def sdk(system: ScriptedSystem) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{system.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_a_shell_call_is_returned_to_the_caller(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    skill = {"name": "pdf", "description": "Reads PDFs.", "path": "/skills/pdf"}
    tool: Any = {"type": "shell", "environment": {"type": "local", "skills": [skill]}}
    begun = await sdk.responses.create(model=MODEL, input="List.", tools=[tool])
    (call,) = begun.output
    assert call.type == "shell_call"
    assert (call.action.commands, call.action.timeout_ms, call.status) == (["ls", "pwd"], 1000, "completed")
    assert "- pdf (/skills/pdf): Reads PDFs." in system.model.prompts[-1]
    output: Any = {"type": "shell_call_output", "call_id": call.call_id, "output": [LINES]}
    ended = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=begun.id, tools=[tool])
    assert ended.output_text == 'I was told: [{"stdout":"a.txt","stderr":"","outcome":{"type":"exit","exit_code":0}}]'
    assert '"commands": ["ls", "pwd"]' in system.model.prompts[-1]


async def test_a_local_shell_call_is_returned_to_the_caller(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    begun = await sdk.responses.create(model=MODEL, input="List.", tools=[{"type": "local_shell"}])
    (call,) = begun.output
    assert call.type == "local_shell_call"
    assert (call.action.type, call.action.command, call.action.env) == ("exec", ["ls", "-l"], {})
    assert call.action.working_directory == "/tmp"
    output: Any = {"type": "local_shell_call_output", "id": call.call_id, "output": "a.txt"}
    ended = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=begun.id)
    assert ended.output_text == "I was told: a.txt"


async def test_an_apply_patch_call_is_returned_to_the_caller(system: ScriptedSystem, sdk: AsyncOpenAI) -> None:
    begun = await sdk.responses.create(model=MODEL, input="Change it.", tools=[{"type": "apply_patch"}])
    (call,) = begun.output
    assert call.type == "apply_patch_call"
    assert call.operation.model_dump() == ARGUMENTS["apply_patch"]
    output: Any = {"type": "apply_patch_call_output", "call_id": call.call_id, "status": "completed", "output": "Done."}
    ended = await sdk.responses.create(model=MODEL, input=[output], previous_response_id=begun.id)
    assert ended.output_text == "I was told: Done."
    failed = output | {"status": "failed", "output": None}
    ended = await sdk.responses.create(model=MODEL, input=[failed], previous_response_id=begun.id)
    assert ended.output_text == "I was told: failed"


async def test_a_computer_call_is_returned_and_its_screenshot_reaches_the_model(
    system: ScriptedSystem, sdk: AsyncOpenAI
) -> None:
    begun = await sdk.responses.create(model=SEER, input="Click.", tools=[COMPUTER])
    (call,) = begun.output
    assert call.type == "computer_call"
    assert [action.type for action in call.actions or ()] == ["click", "screenshot"]
    assert call.pending_safety_checks == []
    screen = {"type": "computer_screenshot", "image_url": data_url(PNG)}
    output: Any = {"type": "computer_call_output", "call_id": call.call_id, "output": screen}
    ended = await sdk.responses.create(model=SEER, input=[output], previous_response_id=begun.id)
    assert ended.status == "completed"
    assert len(images_in(system.seer.requests[-1])) == 1


async def test_a_stream_sends_a_client_tool_call_only_when_it_is_complete(
    system: ScriptedSystem, sdk: AsyncOpenAI
) -> None:
    stream = await sdk.responses.create(model=MODEL, input="List.", tools=[{"type": "shell"}], stream=True)
    told = [event.type async for event in stream]
    assert told[2:4] == ["response.output_item.added", "response.output_item.done"]
    log = (await system.http.create(model=MODEL, input="List.", tools=[{"type": "shell"}], stream=True)).events
    assert fold(log) == log[-1]["response"]


@pytest.mark.parametrize("kind", ["shell", "local_shell", "apply_patch", "computer"])
async def test_a_tool_choice_can_force_a_client_tool(system: ScriptedSystem, kind: str) -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": kind}]}
    for choice in ({"type": kind}, allowed):
        answer = await system.http.create(model=MODEL, input="Do.", tools=[{"type": kind}], tool_choice=choice)
        assert (answer.status, answer.json["tool_choice"]) == (200, choice)
        absent = await system.http.create(model=MODEL, input="Do.", tool_choice=choice)
        assert (absent.status, absent.error["param"].startswith("tool_choice")) == (400, True)


async def test_invalid_arguments_become_an_incomplete_call_without_commands(
    system: ScriptedSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARGUMENTS, "shell", {"commands": "rm -rf /"})
    answer = await system.http.create(model=MODEL, input="List.", tools=[{"type": "shell"}])
    (call,) = answer.json["output"]
    assert (call["type"], call["status"], call["action"]) == ("shell_call", "incomplete", {"commands": []})
    again = await system.http.create(model=MODEL, input="Again.", previous_response_id=answer.json["id"])
    assert again.status == 200


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "shell_call", "call_id": "c", "action": {"commands": []}}, "input[0].action.commands"),
        (
            {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "update_file", "path": "a"}},
            "input[0].operation",
        ),
        ({"type": "computer_call", "call_id": "c", "actions": [{"type": "click"}]}, "input[0].actions[0]"),
        ({"type": "shell_call_output", "call_id": "c", "output": []}, "input"),
    ],
)
async def test_an_invalid_client_tool_item_is_rejected_by_name(
    system: ScriptedSystem, item: Object, param: str
) -> None:
    answer = await system.http.create(model=MODEL, input=[item, {"role": "user", "content": "Hi"}])
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_containers_are_refused_by_name(system: ScriptedSystem) -> None:
    tool = {"type": "shell", "environment": {"type": "container_auto"}}
    answer = await system.http.create(model=MODEL, input="List.", tools=[tool])
    assert (answer.status, answer.error["param"]) == (400, "tools[0].environment")
