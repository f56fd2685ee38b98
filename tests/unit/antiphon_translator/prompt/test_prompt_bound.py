from __future__ import annotations

import sys

import pytest
from tokenizers import Tokenizer, normalizers
from tokenizers.models import BPE
from tokenizers.normalizers import Normalizer

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Image, Message
from antiphon_translator.prompt.prompt_bound import AROUND_TOKENS, JSON_GROWTH, PromptBound
from antiphon_translator.tokenizer.tokens import ModelTokenizer

TOOL: Object = {"name": "f"}
HELLO = Conversation((Message("user"),))


def nothing(conversation: Conversation, *, now_s: int) -> str:
    return ""


def bound(*messages: Message, growth: int = 1, tools: tuple[Object, ...] = ()) -> int:
    return PromptBound(nothing, growth).of(Conversation(messages, tools))


def test_bound_counts_each_byte_and_each_message() -> None:
    assert bound(Message("user", ("ab", "c")), Message("assistant", ("d",), "ef")) == 2 * AROUND_TOKENS + 6
    assert bound(Message("user", ("é",))) == AROUND_TOKENS + 2


def test_bound_adds_growth_only_for_non_ascii_text() -> None:
    assert bound(Message("user", ("ab", "é")), growth=3) == AROUND_TOKENS + 2 + 6


def test_bound_counts_calls_results_tools_and_images() -> None:
    asking = Message("assistant", calls=(Call("id", "name", {"a": 1}),))
    assert bound(asking) == AROUND_TOKENS + 6 + AROUND_TOKENS + JSON_GROWTH * len('{"a":1}')
    assert bound(Message("tool", ("x",), call_id="id", name="name")) == AROUND_TOKENS + 7
    assert bound(Message("user"), tools=(TOOL,)) - AROUND_TOKENS == AROUND_TOKENS + JSON_GROWTH * len('{"name":"f"}')
    assert bound(Message("user", (Image(b"", "png", 1, 1),))) == 2 * AROUND_TOKENS


def test_bound_counts_tools_for_each_message_equal_to_the_last() -> None:
    yes, no = Message("user", ("yes",)), Message("user", ("no",))
    tools = bound(yes, tools=(TOOL,)) - bound(yes)
    assert bound(yes, no, yes, tools=(TOOL,)) == bound(yes, no, yes) + 2 * tools


def test_bound_counts_the_fixed_text_of_the_template() -> None:
    def with_tools(conversation: Conversation, *, now_s: int) -> str:
        return "x" * (100 if conversation.tools else 10)

    assert PromptBound(with_tools, 1).of(HELLO) == 100 + AROUND_TOKENS


def test_bound_of_a_template_that_rejects_tools_is_measured_without_them() -> None:
    def render(conversation: Conversation, *, now_s: int) -> str:
        if conversation.tools:
            raise InvalidRequest("no tools", field="tools")
        return "x" * 10

    assert PromptBound(render, 1).of(HELLO) == 10 + AROUND_TOKENS


def test_bound_of_a_template_that_rejects_everything_is_unlimited() -> None:
    def render(conversation: Conversation, *, now_s: int) -> str:
        raise InvalidRequest("no", field="input")

    assert PromptBound(render, 1).of(HELLO) >= sys.maxsize


@pytest.mark.parametrize(
    ("normalizer", "growth", "text"),
    [
        (None, 1, "é"),
        (normalizers.NFC(), 3, "\u0958"),
        (normalizers.NFKC(), 11, "\ufdfa"),
        (normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), 6, "é b"),
    ],
)
def test_normalised_text_stays_within_the_growth_of_the_tokenizer(
    normalizer: Normalizer | None, growth: int, text: str
) -> None:
    made = Tokenizer(BPE({"a": 0}, []))
    if normalizer is not None:
        made.normalizer = normalizer
        assert len(normalizer.normalize_str(text).encode()) <= growth * len(text.encode())
    assert ModelTokenizer(made).growth == growth
