from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.conversation import Call, Conversation, Image, Message
from antiphon_translator.prompt.prompt import EncodedPrompt
from antiphon_translator.prompt.truncation import RESERVE_TOKENS_MAX, fit, reserve_tokens


def encode(conversation: Conversation) -> EncodedPrompt:
    """Counts one token for each character and one for each message."""
    return EncodedPrompt([], sum(1 + len(message.text) for message in conversation.messages), [])


def kept(conversation: Conversation, most_tokens: int) -> str:
    """The remaining messages, as the first letters of their roles."""
    shown, prompt = fit(conversation, encode, most_tokens=most_tokens)
    assert prompt == encode(shown)
    return "".join(message.role[0] for message in shown.messages)


def said(role: str, length: int = 9) -> Message:
    return Message(role, ("x" * length,))


WITH_CALLS = Conversation(
    (
        said("system"),
        said("user"),
        Message("assistant", calls=(Call("c", "f", {}),)),
        Message("tool", ("x" * 9,), call_id="c"),
        said("assistant"),
        said("user"),
        said("assistant"),
        said("user"),
    )
)


@pytest.mark.parametrize(
    ("most_tokens", "left"),
    [(71, "suatauau"), (70, "suau"), (40, "suau"), (39, "su"), (20, "su"), (1, "su")],
)
def test_truncation_drops_whole_turns_oldest_first(most_tokens: int, left: str) -> None:
    assert kept(WITH_CALLS, most_tokens) == left


def test_truncation_keeps_a_developer_message_in_the_middle() -> None:
    conversation = Conversation((said("user"), said("developer"), said("assistant"), said("user")))
    assert kept(conversation, 25) == "du"


def test_truncation_treats_messages_before_the_first_user_message_as_a_turn() -> None:
    conversation = Conversation((said("assistant"), said("user"), said("assistant"), said("user")))
    assert [kept(conversation, most) for most in (40, 30, 10)] == ["auau", "uau", "u"]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(1, 600))
def test_truncation_drops_no_more_turns_than_needed(lengths: list[int], most_tokens: int) -> None:
    conversation = Conversation(tuple(said("user", length) for length in lengths))
    left = len(kept(conversation, most_tokens))
    sizes = [length + 1 for length in lengths]
    assert left == 1 or sum(sizes[-left:]) <= most_tokens
    assert left == len(sizes) or sum(sizes[-left - 1 :]) > most_tokens


def test_truncation_of_a_long_chat_encodes_few_prompts() -> None:
    conversation = Conversation(tuple(said("user") for _ in range(1000)))
    made: list[Conversation] = []

    def count(shown: Conversation) -> EncodedPrompt:
        made.append(shown)
        return encode(shown)

    fit(conversation, count, most_tokens=500)
    assert len(made) <= 12


@pytest.mark.parametrize(
    ("context_length", "asked", "reserve"),
    [(100_000, None, RESERVE_TOKENS_MAX), (1_000, None, 250), (1_000, 7, 7), (1_000, 501, 500)],
)
def test_truncation_reserves_room_for_the_answer(context_length: int, asked: int | None, reserve: int) -> None:
    assert reserve_tokens(context_length, asked) == reserve


def test_truncation_counts_images_and_drops_them_with_their_message() -> None:
    images = [Image(bytes([n]), "png", 1, 1) for n in range(2)]
    given = Conversation((Message("user", ("x", images[0])), said("assistant"), Message("user", ("x", images[1]))))
    everything = encode(given).tokens + 2 * 100
    for most_tokens, left in ((everything, images), (everything - 1, images[1:])):
        shown, _ = fit(given, encode, most_tokens=most_tokens, image_tokens=100)
        assert list(shown.images) == left
