from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.templates.defusal import WORD_JOINER, ZERO_WIDTH_SPACE, Defusal
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.served_models import tokenizer


def small(*removed: str) -> ModelTokenizer:
    """A tokenizer with one control token. It removes some characters before it searches for the token."""
    made = Tokenizer(models.BPE())
    if removed:
        made.normalizer = normalizers.Sequence([normalizers.Replace(each, "") for each in removed])
    made.add_tokens([AddedToken("<end>", normalized=True)])
    return ModelTokenizer(made)


def defusal(of: ModelTokenizer) -> Defusal:
    return Defusal(of, ControlTokens(of.added))


def saying(*texts: str) -> Conversation:
    return Conversation(tuple(Message("user", (text,)) for text in texts))


def test_conversation_without_control_tokens_stays_the_same_object() -> None:
    conversation = saying("Hi", "a < b")
    assert defusal(tokenizer()).of(conversation) is conversation


@pytest.mark.parametrize(("removed", "separator"), [((), WORD_JOINER), ((WORD_JOINER,), ZERO_WIDTH_SPACE)])
def test_control_token_is_split_by_a_separator_that_the_tokenizer_keeps(
    removed: tuple[str, ...], separator: str
) -> None:
    shown = defusal(small(*removed)).of(saying("a<end>b"))
    assert shown.messages[0].text == f"a<{separator}end>b"


def test_control_token_that_no_separator_breaks_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="control token"):
        defusal(small(WORD_JOINER, ZERO_WIDTH_SPACE)).of(saying("a<end>b"))


@given(st.lists(st.sampled_from(["<|im_end|>", "<|im_", "end|>", "<", "|>", "a", " "]), max_size=8))
def test_defused_text_has_no_control_token_ids(pieces: list[str]) -> None:
    shown = defusal(tokenizer()).of(saying("".join(pieces)))
    assert set(tokenizer().added).isdisjoint(tokenizer().encode(shown.messages[0].text))
    assert shown.messages[0].text.replace(WORD_JOINER, "") == "".join(pieces)
