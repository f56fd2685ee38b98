"""Over HTTP, with the templates of real models: each instruction reaches the model, whether the translator or the
engine renders, and keeps its position relative to the model's answers. Codex sends developer messages first in every
request, and more of them on resume."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest

from antiphon_core.jsons import Object
from tests.support.templated_system import TemplatedSystem, by_chat, by_tokens

TEMPLATES = ("Qwen-Qwen3-0.6B", "Qwen3.5-4B", "Mistral-Small-3.2", "openai-gpt-oss-120b")
FUNCTION: Object = {
    "type": "function",
    "name": "f",
    "description": "Asks.",
    "parameters": {"type": "object", "properties": {}},
}
CALL: Object = {"type": "function_call", "call_id": "call_0123456789abcdef01234567", "name": "f", "arguments": "{}"}
RESULT: Object = {"type": "function_call_output", "call_id": CALL["call_id"], "output": "forty-two"}

Start = Callable[[str], Awaitable[TemplatedSystem]]


def said(role: str, text: str) -> Object:
    return {"role": role, "content": text}


FIRST = [said("developer", "Be brief."), said("user", "One."), said("user", "Two.")]
RESUMED = [*FIRST, said("assistant", "Done."), said("developer", "Be kind."), said("user", "Three.")]


@pytest.fixture(params=["tokens", "chat", "chat without a template"])
async def before(request: pytest.FixtureRequest) -> AsyncIterator[Start]:
    """Starts a system with a template."""
    async with AsyncExitStack() as stack:

        async def start(template: str) -> TemplatedSystem:
            if request.param == "tokens":
                return await stack.enter_async_context(by_tokens(template))
            is_seen = request.param == "chat"
            return await stack.enter_async_context(by_chat(template, is_seen=is_seen))

        yield start


def assert_in_order(prompt: str, texts: Sequence[str]) -> None:
    places = [prompt.rfind(text) for text in texts]
    assert -1 not in places, prompt
    assert places == sorted(places), prompt


@pytest.mark.parametrize("template", TEMPLATES)
async def test_first_instructions_and_user_messages_reach_the_model_in_order(before: Start, template: str) -> None:
    system = await before(template)
    await system.ask(FIRST, instructions="Be honest.")
    assert_in_order(system.prompts()[-1], ["Be honest.", "Be brief.", "One.", "Two."])


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_late_developer_message_stays_behind_the_models_answer(before: Start, template: str) -> None:
    system = await before(template)
    await system.ask(RESUMED)
    assert_in_order(system.prompts()[-1], ["Be brief.", "One.", "Two.", "Done.", "Be kind.", "Three."])


@pytest.mark.parametrize("template", ["Qwen3.5-4B", "Mistral-Small-3.2"])
async def test_late_instructions_are_marked_for_templates_that_take_none(before: Start, template: str) -> None:
    system = await before(template)
    await system.ask([*RESUMED[:-1], said("system", "Be calm."), RESUMED[-1]])
    marked = ["<developer_message>\nBe kind.\n</developer_message>", "<system_message>\nBe calm.\n</system_message>"]
    assert_in_order(system.prompts()[-1], ["Done.", *marked, "Three."])


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_turn_with_a_tool_call_reaches_the_model_in_order(before: Start, template: str) -> None:
    system = await before(template)
    items = [*FIRST, CALL, RESULT, said("assistant", "It is."), said("developer", "Be kind."), said("user", "Why?")]
    await system.ask(items, tools=[FUNCTION])
    assert_in_order(system.prompts()[-1], ["Be brief.", "Two.", "forty-two", "It is.", "Be kind.", "Why?"])


@pytest.mark.parametrize("template", ["Qwen3.5-4B", "openai-gpt-oss-120b"])
async def test_an_instruction_behind_a_result_is_read_at_its_place(before: Start, template: str) -> None:
    system = await before(template)
    await system.ask([*FIRST, CALL, RESULT, said("developer", "Be kind.")], tools=[FUNCTION])
    assert_in_order(system.prompts()[-1], ["Be brief.", "Two.", "forty-two", "Be kind."])


@pytest.mark.parametrize("engine", [by_tokens, by_chat])
async def test_an_instruction_without_a_valid_position_is_rejected_by_path(
    engine: Callable[[str], AbstractAsyncContextManager[TemplatedSystem]],
) -> None:
    async with engine("Mistral-Small-3.2") as system:
        items = [*FIRST, CALL, RESULT, said("developer", "Be kind.")]
        answer = await system.http.create(model="m", input=items, tools=[FUNCTION])
        assert (answer.status, answer.error["param"]) == (400, "input[5]")
        assert "between the result of a tool call and the model's answer" in answer.error["message"]
        assert not system.prompts()


async def test_a_message_order_that_a_template_rejects_is_rejected_by_path() -> None:
    async with by_tokens("Mistral-Small-3.2") as system:
        answer = await system.http.create(model="m", input=[*FIRST[:2], RESUMED[3], RESUMED[3], CALL, RESULT])
        assert answer.status == 200, answer.body
        answer = await system.http.create(model="m", input=[said("assistant", "Hello."), said("user", "Hi.")])
        assert (answer.status, answer.error["param"]) == (400, "input[0]")


async def test_a_stored_history_is_read_like_items_that_are_sent(before: Start) -> None:
    system = await before("Mistral-Small-3.2")
    first = await system.ask(FIRST)
    second = await system.ask(RESUMED[-2:], previous_response_id=first["id"])
    await system.ask([said("user", "Four.")], previous_response_id=second["id"])
    assert_in_order(system.prompts()[1], ["Be brief.", "One.", "Two.", "Yes.", "Be kind.", "Three."])
    assert_in_order(system.prompts()[2], ["Be brief.", "Two.", "Be kind.", "Three.", "Yes.", "Four."])


async def test_a_late_instruction_is_kept_when_its_turn_is_truncated() -> None:
    async with by_tokens("Qwen3.5-4B") as system:
        long = [said("user", "word " * 9_000), said("assistant", "Done."), said("developer", "Be kind.")]
        await system.ask([*long, said("user", "Three.")], truncation="auto", max_output_tokens=100)
        assert_in_order(system.prompts()[-1], ["Be kind.", "Three."])
        assert "word" not in system.prompts()[-1]


CODEX_TOOLS: list[Object] = [
    FUNCTION | {"name": "shell", "description": "Runs a command.", "strict": False},
    {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "text"}},
]
CODEX: Object = {
    "tools": CODEX_TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199",
    "client_metadata": {"originator": "codex_cli_rs"},
}


def written(role: str, *texts: str) -> Object:
    """A message in the form of Codex."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_session_of_codex_is_read_when_it_begins_and_when_it_is_resumed(before: Start, template: str) -> None:
    system = await before(template)
    items = [
        written("developer", "You are Codex.", "<permissions instructions>Ask first.</permissions instructions>"),
        written("user", "# AGENTS.md", "<environment_context>/src</environment_context>"),
        written("user", "Fix it."),
    ]
    order = ["You are Codex.", "Ask first.", "# AGENTS.md", "/src", "Fix it."]
    first = await system.ask(items, **CODEX)
    assert_in_order(system.prompts()[-1], order)
    items += [
        *first["output"],
        CALL | {"name": "shell"},
        RESULT,
        {"type": "custom_tool_call", "call_id": "call_9", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "call_9", "output": "patched"},
        written("assistant", "Fixed."),
        written("developer", "<permissions instructions>Never ask.</permissions instructions>"),
        written("developer", "<model_switch>Go on.</model_switch>"),
        written("user", "<environment_context>/lib</environment_context>"),
        written("user", "And the tests?"),
    ]
    await system.ask(items, **CODEX)
    order += ["forty-two", "patched", "Fixed.", "Never ask.", "<model_switch>Go on.", "/lib", "And the tests?"]
    assert_in_order(system.prompts()[-1], order)
