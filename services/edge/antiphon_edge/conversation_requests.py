"""The bodies of the Conversations API and of forks. As in body.py, unknown members are rejected."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.body import Metadata
from antiphon_core.request.items import Item, items_given
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import AsGiven, Body


class CreateConversation(Body):
    metadata: Metadata | None = None
    """Up to 16 key-value pairs. They are not shown to the model."""
    items: Annotated[Annotated[list[Item], AtMost(limits.CONVERSATION_ITEMS_MAX)], AsGiven] | None = None
    """The first items of the conversation."""

    @property
    def items_given(self) -> list[Object]:
        """The first items as the client wrote them, with undeclared members."""
        return items_given(self.items or ())


class UpdateConversation(Body):
    """An update of a conversation, which replaces all of its metadata."""

    metadata: Metadata | None
    """The new metadata, which replaces all pairs; null removes them."""


class AddItems(Body):
    items: Annotated[Annotated[list[Item], Field(min_length=1), AtMost(limits.CONVERSATION_ITEMS_MAX)], AsGiven]
    """The items to add, in this order. Each gets a new id."""

    @property
    def items_given(self) -> list[Object]:
        """The items as the client wrote them, with undeclared members."""
        return items_given(self.items)


class ForkSession(Body):
    """The response from which to fork, and the name of the new session."""

    up_to_response_id: str | None = None
    """The last response of the new session's history; the default is the newest one."""
    new_session_id: str | None = None
    """The name of the new session. A repeated request with the same name gets the same fork."""
