"""Finds the item because of which a model cannot be given a conversation, so that its 400 can name it.

Only a conversation that was refused is looked at: its beginnings are tried again, by halves.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation


def named(
    error: InvalidRequest,
    conversation: Conversation,
    attempt: Callable[[Conversation], object],
    path_of: Callable[[int], str],
) -> InvalidRequest:
    """The error with the path of the first item with which `attempt` refuses the conversation. `path_of` is the path of
    the item that began the message at a place. An error that names something itself stays as it is."""
    if error.field != "input" or not conversation.messages:
        return error
    taken, refused = 0, len(conversation.messages)
    while refused - taken > 1:
        middle = (taken + refused) // 2
        if _takes(attempt, conversation.with_messages(conversation.messages[:middle])):
            taken = middle
        else:
            refused = middle
    path = path_of(refused - 1)
    return InvalidRequest(f"'{path}': {error.message}", field=path, code=error.code)


def _takes(attempt: Callable[[Conversation], object], beginning: Conversation) -> bool:
    try:
        attempt(beginning)
    except InvalidRequest:
        return False
    return True
