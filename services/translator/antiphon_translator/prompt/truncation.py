"""Drops the oldest turns, whole, from a conversation that is longer than the model's context.

A turn begins with a message of the user and holds everything up to the next one, so that a call never parts from its
result, nor reasoning from its answer. System and developer messages, the tools and the last turn are always kept. As
few turns as possible are dropped; the tokenizer tells how many that is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.prompt.prompt import EncodedPrompt

RESERVE_TOKENS_MAX = 4_096  # kept free for the answer when nobody says how long it may be

_KEPT = ("system", "developer")


def reserve_tokens(context_length: int, asked: int | None) -> int:
    """How much of the context the answer is to have."""
    return asked if asked is not None else min(RESERVE_TOKENS_MAX, context_length // 4)


def fit(
    conversation: Conversation,
    encode: Callable[[Conversation], EncodedPrompt],
    *,
    most_tokens: int,
    image_tokens: int = 0,
) -> tuple[Conversation, EncodedPrompt]:
    """As many turns of the conversation as fit, and their prompt; the last one alone if even that does not.

    `encode` is called about log2(turns) times. A prompt grows with what is in it, so halving finds the longest. An
    image counts as `image_tokens` besides what the prompt says of it."""
    turns = _turns(conversation.messages)
    tried: dict[int, tuple[Conversation, EncodedPrompt]] = {}

    def fits(left_out: int) -> bool:
        shown = _without(conversation, turns[:left_out])
        tried[left_out] = shown, encode(shown)
        return tried[left_out][1].tokens + image_tokens * len(shown.images) <= most_tokens

    most_left_out = max(len(turns) - 1, 0)
    left_out = bisect_left(range(most_left_out), True, key=fits)
    if left_out not in tried:
        fits(left_out)
    return tried[left_out]


def _turns(messages: Sequence[Message]) -> list[list[int]]:
    """The places of the messages of each turn, oldest first."""
    turns: list[list[int]] = []
    for place, message in enumerate(messages):
        if message.role in _KEPT:
            continue
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(place)
    return turns


def _without(conversation: Conversation, turns: Sequence[Sequence[int]]) -> Conversation:
    left_out = {place for turn in turns for place in turn}
    messages = tuple(message for place, message in enumerate(conversation.messages) if place not in left_out)
    return conversation.with_messages(messages)
