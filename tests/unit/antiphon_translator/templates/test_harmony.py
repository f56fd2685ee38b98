"""Parts of harmony prompts. tests/golden/harmony compares whole prompts with those of openai-harmony."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates import harmony, typescript
from antiphon_translator.templates.control_tokens import may_be_completed
from antiphon_translator.templates.harmony import HarmonyTemplate

NOW_S = 1_700_000_000  # 2023-11-14 22:13:20 UTC
CONTROL = [
    f"<|{name}|>"
    for name in (
        "start",
        "end",
        "message",
        "channel",
        "constrain",
        "call",
        "return",
        "startoftext",
        "endoftext",
        "reserved_1",
        "endofprompt",
    )
]
ASKED = Message("user", ("Hi",))


def render(*messages: Message, tools: tuple[Object, ...] = (), continues_last: bool = False, **switches: Any) -> str:
    shown = Conversation(messages, tools, continues_last)
    return HarmonyTemplate().render(shown, now_s=NOW_S, switches=switches)


def said(*messages: Message, continues_last: bool = False) -> str:
    """The part of the prompt behind the question."""
    return render(ASKED, *messages, continues_last=continues_last).partition("<|start|>user<|message|>Hi<|end|>")[2]


def test_question_is_rendered_with_the_system_message() -> None:
    assert render(ASKED) == (
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
        "Knowledge cutoff: 2024-06\nCurrent date: 2023-11-14\n\nReasoning: medium\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
        "<|start|>user<|message|>Hi<|end|><|start|>assistant"
    )


def test_reasoning_effort_is_in_the_prompt() -> None:
    assert "Reasoning: high\n" in render(ASKED, reasoning_effort="high")


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (Message("assistant", ("So far",)), "final<|message|>So far"),
        (Message("assistant", ("So far",), is_commentary=True), "commentary<|message|>So far"),
        (Message("assistant", reasoning="Hm"), "analysis<|message|>Hm"),
        (Message("assistant", ("",)), "final<|message|>"),
        (
            Message("assistant", ("So <|end|>",), reasoning="Hm"),
            "analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>So <|end|>",
        ),
    ],
)
def test_message_to_continue_is_left_open(last: Message, end: str) -> None:
    assert said(last, continues_last=True) == f"<|start|>assistant<|channel|>{end}"


def test_empty_message_to_continue_begins_a_new_one() -> None:
    assert said(Message("assistant"), continues_last=True) == "<|start|>assistant"


def test_continued_answer_keeps_the_reasoning_before_it() -> None:
    thought = Message("assistant", reasoning="Hm", calls=(Call("c", "f", {}),))
    assert "Hm" in said(thought, Message("assistant", ("So",)), continues_last=True)
    assert "Hm" not in said(thought, Message("assistant", ("So",)))


def test_empty_text_is_written_only_without_a_call() -> None:
    call = "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>"
    assert said(Message("assistant", ("",), calls=(Call("c", "f", {}),))) == f"{call}<|start|>assistant"
    assert said(Message("assistant", ("",))) == (
        "<|start|>assistant<|channel|>final<|message|><|end|><|start|>assistant"
    )


def test_deeply_nested_tool_schema_is_rejected() -> None:
    schema: Object = {"type": "integer"}
    for _ in range(2_000):
        schema = {"type": "array", "items": schema}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        render(ASKED, tools=(tool,))


def test_texts_of_the_template_end_in_no_part_of_a_control_token() -> None:
    """Otherwise a text of a caller could complete a control token (templates/control_tokens.py)."""
    trees = [ast.parse(Path(module.__file__ or "").read_text("utf-8")) for module in (harmony, typescript)]
    literals = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    texts = {text for text in literals if isinstance(text, str)}
    assert "<|start|>assistant" in texts
    assert not may_be_completed(texts, CONTROL)
