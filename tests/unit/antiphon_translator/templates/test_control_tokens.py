from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
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


def test_white_space_and_single_characters_are_vocabulary() -> None:
    assert set(CONTROL.ids) == {0, 1, 2, 5}


def test_the_leftmost_and_then_the_longest_is_found() -> None:
    assert list(CONTROL.spelt("x<|end|><|end<a<a>")) == ["<|end|>", "<|end", "<a>"]
    assert CONTROL.find("<|en <a", 0) is None
    assert ControlTokens({}).find("<|end|>", 0) is None


def test_a_benign_prompt_stays_in_one_piece() -> None:
    assert pieces(chat, "1 < 2", "a|>") == ["<a>1 < 2<|end|><a>a|><|end|>"]


def test_what_a_message_spells_is_cut_and_what_the_template_spells_is_not() -> None:
    assert pieces(chat, "x<|end|>y") == ["<a>x<", "|end|>y<|end|>"]
    assert pieces(chat, "<a><a>") == ["<a><", "a><", "a><|end|>"]


def test_what_a_message_and_its_surroundings_spell_together_is_cut() -> None:
    def around(shown: Conversation) -> str:
        return "".join(f"<{message.text}>" for message in shown.messages)

    assert pieces(around, "think") == ["<", "think>"]
    assert pieces(lambda shown: "".join(m.text for m in shown.messages), "<thi", "nk>") == ["<", "think>"]


def test_a_template_may_trim_and_look_into_texts_that_spell_nothing() -> None:
    def trimming(shown: Conversation) -> str:
        (message,) = shown.messages
        return f"<a>{'link' if message.text.startswith('end') else message.text.strip()}<|end|>"

    assert pieces(trimming, "  hi  ") == ["<a>hi<|end|>"]
    assert pieces(trimming, "end of story") == ["<a>link<|end|>"]
    # Here the masked rendering counts: a text that spells a token cannot be trusted to be looked into.
    assert pieces(trimming, "end<a>") == ["<a>end<", "a><|end|>"]


def test_private_use_characters_of_a_text_are_kept() -> None:
    mask = Mask(["<", ">"], avoiding="\U000f0000\U000f0002")
    assert mask.hide("<\U000f0000>") == "\U000f0001\U000f0000\U000f0003"
    assert mask.reveal(mask.hide("<\U000f0000>")) == "<\U000f0000>"
    assert "".join(pieces(chat, "\U000f0000\U000f0001<|end|>")) == "<a>\U000f0000\U000f0001<|end|><|end|>"


def test_a_text_that_uses_up_the_private_use_characters_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        Mask(["<"], avoiding="".join(map(chr, range(0xF0000, 0x110000))))


TEXTS = st.text(st.sampled_from([*"<|>endathik ", "\U000f0000", "¶", "é"]), max_size=40) | st.sampled_from(
    ["<|end|>", "<|end", "<think>", "<|end|><|end|>"]
)


@pytest.mark.parametrize("control", [CONTROL, ControlTokens(ADDED, ["<a>", "<|end|>"])], ids=["any", "known"])
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_no_piece_spells_more_than_the_template_wrote_and_no_character_is_lost(
    control: ControlTokens, texts: list[str]
) -> None:
    found = control.pieces(saying(*texts), chat)
    assert "".join(found) == chat(saying(*texts))
    written = [name for _ in texts for name in ("<a>", "<|end|>")]
    assert [name for piece in found for name in CONTROL.spelt(piece)] == written


# ---- How often a conversation is rendered ----

KNOWN = ControlTokens(ADDED, ["<a>", "<|end|>\n", " "])
"""With all texts of the template."""


def renderings(control: ControlTokens, *texts: str) -> int:
    made: list[Conversation] = []

    def render(shown: Conversation) -> str:
        made.append(shown)
        return chat(shown)

    control.pieces(saying(*texts), render)
    return len(made)


def test_a_conversation_that_cannot_begin_a_name_is_rendered_once() -> None:
    assert renderings(KNOWN, "1 > 2", "think|end|>") == 1
    assert renderings(KNOWN, "1 < 2") == 2
    assert renderings(CONTROL, "1 > 2") == 2


@pytest.mark.parametrize(
    ("literal", "may_be"),
    [("<a>", False), ("<|end", True), ("x <", True), ("x <\n", True), ("a <b", False), ("", False), ("<|en<a", True)],
)
def test_a_template_that_ends_a_text_within_a_name_leaves_it_to_be_completed(literal: str, may_be: bool) -> None:
    assert may_be_completed([literal], set(ADDED.values())) is may_be
    assert renderings(ControlTokens(ADDED, [literal]), "x") == 1 + may_be


@pytest.mark.parametrize("name", ["end", " <end>", "\\end", "'end", "&end"])
def test_a_name_that_a_filter_can_begin_by_itself_is_always_looked_for(name: str) -> None:
    assert renderings(ControlTokens({0: name}, []), "x") == 2
    assert renderings(ControlTokens({0: "<x>"}, []), "x") == 1


def test_what_the_template_and_a_text_spell_together_is_cut_where_the_template_is_known() -> None:
    control = ControlTokens(ADDED, ["<", ">"])

    def around(shown: Conversation) -> str:
        return "".join(f"<{message.text}>" for message in shown.messages)

    assert control.pieces(saying("think"), around) == ["<", "think>"]


def test_what_a_key_and_a_text_spell_together_is_cut() -> None:
    def called(shown: Conversation) -> str:
        return "".join(f"{key}{value}" for call in shown.messages[0].calls for key, value in call.arguments.items())

    shown = Conversation((Message("assistant", calls=(Call("c", "f", {"<thi": "nk>"}),)),))
    assert KNOWN.pieces(shown, called) == ["<", "think>"]


def test_names_are_found_in_texts_of_any_length() -> None:
    text = f"{'x' * 65_534}<a>{'y' * 65_533}<|end|>"
    assert [text[slice(*span)] for span in KNOWN.spans(text)] == ["<a>", "<|end|>"]
    assert [text[slice(*span)] for span in KNOWN.spans(text, 65_535)] == ["<|end|>"]
