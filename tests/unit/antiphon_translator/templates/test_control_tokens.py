from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates.control_tokens import ControlTokens, Mask, may_be_completed

ADDED = {0: "<|end|>", 1: "<|end", 2: "<a>", 3: "  ", 4: "¶", 5: "<think>"}
CONTROL = ControlTokens(ADDED)

Render = Callable[[Conversation], str]


def saying(*texts: str) -> Conversation:
    return Conversation(tuple(Message("user", (text,)) for text in texts))


def chat(shown: Conversation) -> str:
    return "".join(f"<a>{message.text}<|end|>" for message in shown.messages)


def pieces(render: Render, *texts: str) -> list[str]:
    return CONTROL.pieces(saying(*texts), render)


def test_white_space_and_single_characters_are_no_control_tokens() -> None:
    assert set(CONTROL.ids) == {0, 1, 2, 5}


def test_leftmost_longest_control_token_is_found() -> None:
    assert list(CONTROL.spelt("x<|end|><|end<a<a>")) == ["<|end|>", "<|end", "<a>"]
    assert CONTROL.find("<|en <a", 0) is None
    assert ControlTokens({}).find("<|end|>", 0) is None


def test_prompt_without_spelt_control_tokens_stays_in_one_piece() -> None:
    assert pieces(chat, "1 < 2", "a|>") == ["<a>1 < 2<|end|><a>a|><|end|>"]


def test_control_token_spelt_by_a_message_is_cut_and_that_of_the_template_kept() -> None:
    assert pieces(chat, "x<|end|>y") == ["<a>x<", "|end|>y<|end|>"]
    assert pieces(chat, "<a><a>") == ["<a><", "a><", "a><|end|>"]


def test_control_token_spelt_across_message_borders_is_cut() -> None:
    def around(shown: Conversation) -> str:
        return "".join(f"<{message.text}>" for message in shown.messages)

    assert pieces(around, "think") == ["<", "think>"]
    assert pieces(lambda shown: "".join(m.text for m in shown.messages), "<thi", "nk>") == ["<", "think>"]


def test_template_can_trim_and_inspect_texts_without_control_tokens() -> None:
    def trimming(shown: Conversation) -> str:
        (message,) = shown.messages
        return f"<a>{'link' if message.text.startswith('end') else message.text.strip()}<|end|>"

    assert pieces(trimming, "  hi  ") == ["<a>hi<|end|>"]
    assert pieces(trimming, "end of story") == ["<a>link<|end|>"]
    # A text that spells a control token is rendered masked, so the template cannot inspect the text.
    assert pieces(trimming, "end<a>") == ["<a>end<", "a><|end|>"]


def test_private_use_characters_of_a_text_are_kept() -> None:
    mask = Mask(["<", ">"], avoiding="\U000f0000\U000f0002")
    assert mask.hide("<\U000f0000>") == "\U000f0001\U000f0000\U000f0003"
    assert mask.reveal(mask.hide("<\U000f0000>")) == "<\U000f0000>"
    assert "".join(pieces(chat, "\U000f0000\U000f0001<|end|>")) == "<a>\U000f0000\U000f0001<|end|><|end|>"


def test_text_with_all_private_use_characters_is_rejected() -> None:
    with pytest.raises(InvalidRequest):
        Mask(["<"], avoiding="".join(map(chr, range(0xF0000, 0x110000))))


TEXTS = st.text(st.sampled_from([*"<|>endathik ", "\U000f0000", "¶", "é"]), max_size=40) | st.sampled_from(
    ["<|end|>", "<|end", "<think>", "<|end|><|end|>"]
)


@pytest.mark.parametrize("control", [CONTROL, ControlTokens(ADDED, ["<a>", "<|end|>"])], ids=["any", "known"])
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_pieces_keep_all_text_and_spell_only_control_tokens_of_the_template(
    control: ControlTokens, texts: list[str]
) -> None:
    found = control.pieces(saying(*texts), chat)
    assert "".join(found) == chat(saying(*texts))
    written = [name for _ in texts for name in ("<a>", "<|end|>")]
    assert [name for piece in found for name in CONTROL.spelt(piece)] == written


# ---- Number of renderings of a conversation ----

KNOWN = ControlTokens(ADDED, ["<a>", "<|end|>\n", " "])
"""Control tokens with all literal texts of the template."""


def renderings(control: ControlTokens, *texts: str) -> int:
    made: list[Conversation] = []

    def render(shown: Conversation) -> str:
        made.append(shown)
        return chat(shown)

    control.pieces(saying(*texts), render)
    return len(made)


def test_conversation_that_cannot_begin_a_control_token_is_rendered_once() -> None:
    assert renderings(KNOWN, "1 > 2", "think|end|>") == 1
    assert renderings(KNOWN, "1 < 2") == 2
    assert renderings(CONTROL, "1 > 2") == 2


@pytest.mark.parametrize(
    ("literal", "may_be"),
    [("<a>", False), ("<|end", True), ("x <", True), ("x <\n", True), ("a <b", False), ("", False), ("<|en<a", True)],
)
def test_template_text_that_begins_a_control_token_needs_a_second_rendering(literal: str, may_be: bool) -> None:
    assert may_be_completed([literal], set(ADDED.values())) is may_be
    assert renderings(ControlTokens(ADDED, [literal]), "x") == 1 + may_be


@pytest.mark.parametrize("name", ["end", " <end>", "\\end", "'end", "&end"])
def test_control_token_that_a_filter_can_begin_needs_a_second_rendering(name: str) -> None:
    assert renderings(ControlTokens({0: name}, []), "x") == 2
    assert renderings(ControlTokens({0: "<x>"}, []), "x") == 1


def test_control_token_completed_by_a_known_template_is_cut() -> None:
    control = ControlTokens(ADDED, ["<", ">"])

    def around(shown: Conversation) -> str:
        return "".join(f"<{message.text}>" for message in shown.messages)

    assert control.pieces(saying("think"), around) == ["<", "think>"]


def test_control_token_spelt_by_an_argument_key_and_value_is_cut() -> None:
    def called(shown: Conversation) -> str:
        return "".join(f"{key}{value}" for call in shown.messages[0].calls for key, value in call.arguments.items())

    shown = Conversation((Message("assistant", calls=(Call("c", "f", {"<thi": "nk>"}),)),))
    assert KNOWN.pieces(shown, called) == ["<", "think>"]


@pytest.mark.parametrize("control", [CONTROL, KNOWN], ids=["any", "known"])
def test_control_token_spelt_by_a_key_is_cut(control: ControlTokens) -> None:
    def called(shown: Conversation) -> str:
        return "".join("<a>" + dumps(call.arguments).decode() for call in shown.messages[0].calls)

    shown = Conversation((Message("assistant", calls=(Call("c", "f", {"x<a>": {"<|end|>": 1}}),)),))
    assert control.pieces(shown, called) == ['<a>{"x<', 'a>":{"<', '|end|>":1}}']


def test_control_tokens_are_found_in_texts_of_any_length() -> None:
    text = f"{'x' * 65_534}<a>{'y' * 65_533}<|end|>"
    assert [text[slice(*span)] for span in KNOWN.spans(text)] == ["<a>", "<|end|>"]
    assert [text[slice(*span)] for span in KNOWN.spans(text, 65_535)] == ["<|end|>"]


def test_a_control_token_at_the_end_of_a_text_ends_there() -> None:
    """The names are of several lengths, and slices behind the end of a text are short."""
    assert list(KNOWN.spans("a<a>")) == [(1, 4)]
