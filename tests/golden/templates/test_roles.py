"""Roles in any order, with each recorded template: the prompt has all messages in their order, or the conversation is
rejected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates import role_probe
from antiphon_translator.templates.roles import Roles
from tests.golden.templates.test_prompts import NOW_S, TEMPLATES, TOOL, template
from tests.support.volume import volume

KNOWN = {
    "Mistral-Small-3.2-24B-Instruct-2506": ("system", "tool", "empty"),
    "Qwen3.5-4B": (
        *("system", "user_runs", "assistant_runs", "text_with_calls"),
        *("tool", "user_after_tool", "empty", "long_call_ids"),
    ),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": (
        *(
            "system",
            "user_runs",
            "assistant_runs",
            "text_with_calls",
            "tool",
            "user_after_tool",
            "empty",
            "long_call_ids",
        ),
    ),
    "openai-gpt-oss-120b": (
        *(
            "system",
            "developer",
            "user_runs",
            "assistant_runs",
            "text_with_calls",
            "tool",
            "user_after_tool",
            "empty",
            "long_call_ids",
        ),
    ),
    "Qwen-Qwen3-0.6B": (
        *("system", "several_system", "late_system", "user_runs", "assistant_runs", "text_with_calls"),
        *("tool", "user_after_tool", "empty", "long_call_ids"),
    ),
}


@cache
def roles(path: Path) -> Roles:
    return role_probe.of(template(path).render)


@pytest.mark.parametrize("path", [path for path in TEMPLATES if path.stem in KNOWN], ids=lambda path: path.stem)
def test_role_capabilities_of_known_templates_are_detected(path: Path) -> None:
    assert roles(path).names == KNOWN[path.stem]


_SPEAKERS = st.sampled_from(["system", "developer", "user", "user", "assistant", "call"])


@settings(max_examples=volume(20, 1_000))
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
@given(st.lists(_SPEAKERS, max_size=8), st.booleans())
def test_conversation_is_written_completely_and_in_order_or_rejected(
    path: Path, speakers: list[str], unseen: bool
) -> None:
    """`unseen` applies the rules for a chat server whose template is unknown."""
    messages = tuple(_messages(["user", *speakers, "user"]))
    used = Roles() if unseen else roles(path)
    try:
        adapted = used.adapt(Conversation(messages, (TOOL,)))
        prompt = template(path).render(adapted, now_s=NOW_S)
    except InvalidRequest:
        if "call" not in speakers:
            raise  # without calls each of these templates accepts every conversation
        return
    # Some templates leave out the text before a call. That text is not compared, because roles do not change it.
    spoken = [each for each, behind in pairwise((*messages, messages[0])) if not (each.calls or behind.calls)]
    for role in (("user", "assistant", "tool"), ("system", "developer")):
        places = [prompt.find(message.text) for message in spoken if message.role in role]
        assert -1 not in places
        assert places == sorted(places)
    _assert_nothing_crosses_an_answer(prompt, spoken)


def _assert_nothing_crosses_an_answer(prompt: str, spoken: list[Message]) -> None:
    for number, message in enumerate(spoken):
        if message.role == "assistant":
            place = prompt.find(message.text)
            assert all(prompt.find(each.text) < place for each in spoken[:number])
            assert all(prompt.find(each.text) > place for each in spoken[number + 1 :])


def _messages(speakers: list[str]) -> Iterator[Message]:
    for number, speaker in enumerate(speakers):
        text = f"word{number:02}"
        if speaker == "call":
            call_id = f"call_{number:024x}"
            yield Message("assistant", (), calls=(Call(call_id, "get_weather", {"city": "Rome"}),))
            yield Message("tool", (text,), call_id=call_id, name="get_weather")
        else:
            yield Message(speaker, (text,))
