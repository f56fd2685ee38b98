"""Drops the oldest turns of a conversation that is longer than the model's context.

Turns are dropped whole. A turn begins with a message of the user and ends before the next one, so that a call is never
separated from its result, nor reasoning from its answer. System and developer messages, the tools and the last turn are
always kept. As few turns as possible are dropped, by the token counts of the shortened prompts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from antiphon_translator.conversation import Conversation, Message
from antiphon_translator.prompt.prompt import EncodedPrompt

RESERVE_TOKENS_MAX = 4_096  # kept free for the answer if the request has no max_output_tokens

_KEPT = ("system", "developer")


def reserve_tokens(context_length: int, asked: int | None) -> int:
    """The tokens of the context that are reserved for the answer. `asked` is the request's max_output_tokens, of which
    at most half of the context is reserved: a limit as large as the context would drop the history of every chat."""
    return min(asked, context_length // 2) if asked is not None else min(RESERVE_TOKENS_MAX, context_length // 4)


def fit(
    conversation: Conversation,
    encode: Callable[[Conversation], EncodedPrompt],
    *,
    most_tokens: int,
    image_tokens: int = 0,
) -> tuple[Conversation, EncodedPrompt]:
    """The conversation with as many of its last turns as fit into `most_tokens`, and its prompt. The last turn is kept
    even if it does not fit.

    A binary search calls `encode` about log2(turns) times: a prompt of more turns has more tokens. Each image adds
    `image_tokens` to the tokens of the prompt."""
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
    """The indexes of the messages of each turn, oldest first."""
    turns: list[list[int]] = []
    for index, message in enumerate(messages):
        if message.role in _KEPT:
            continue
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(index)
    return turns


def _without(conversation: Conversation, turns: Sequence[Sequence[int]]) -> Conversation:
    left_out = {index for turn in turns for index in turn}
    messages = tuple(message for index, message in enumerate(conversation.messages) if index not in left_out)
    return conversation.with_messages(messages)
