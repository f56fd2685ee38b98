"""Finds the item because of which a conversation is rejected, so that the error 400 can name it.

It runs only for a conversation that was rejected, and tries beginnings of the conversation by binary search.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon_core.errors import InvalidRequest
from antiphon_translator.conversation import Conversation


def name_item(
    error: InvalidRequest,
    conversation: Conversation,
    attempt: Callable[[Conversation], object],
    path_of: Callable[[int], str],
) -> InvalidRequest:
    """Adds to an error the path of the first item with which `attempt` rejects the conversation. `path_of` gives the
    path of the item that began the message at an index. An error that names a more exact field than `input` stays as it
    is."""
    if error.field != "input" or not conversation.messages:
        return error
    accepted, rejected = 0, len(conversation.messages)
    while rejected - accepted > 1:
        middle = (accepted + rejected) // 2
        if _accepts(attempt, conversation.with_messages(conversation.messages[:middle])):
            accepted = middle
        else:
            rejected = middle
    path = path_of(rejected - 1)
    return InvalidRequest(f"'{path}': {error.message}", field=path, code=error.code)


def _accepts(attempt: Callable[[Conversation], object], beginning: Conversation) -> bool:
    try:
        attempt(beginning)
    except InvalidRequest:
        return False
    return True
