"""The bodies of the Conversations API and of a fork: what they may say.

As in body.py, what is not declared is refused; how a finding becomes an error is decided in errors.py.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, ValidationError

from antiphon_core import limits
from antiphon_core.jsons import Object, parse_object, work_bytes
from antiphon_core.request.body import Metadata
from antiphon_core.request.errors import from_validation
from antiphon_core.request.items import Item, items_given
from antiphon_core.request.models import AsGiven, Body


class _Body(Body):
    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parses a JSON body. InvalidRequest: `field` is the path of the culprit."""
        given = parse_object(body)
        try:
            return cls.model_validate(given).with_work(work_bytes(body))
        except ValidationError as error:
            raise from_validation(error) from error


class CreateConversation(_Body):
    metadata: Metadata | None = None
    """Up to 16 texts by name. No model reads them."""
    items: Annotated[Annotated[list[Item], Field(max_length=limits.CONVERSATION_ITEMS_MAX)], AsGiven] | None = None
    """The first items of the conversation."""

    @property
    def items_given(self) -> list[Object]:
        """The first items as the client wrote them, members not declared included."""
        return items_given(self.items or ())


class UpdateConversation(_Body):
    """All metadata that the conversation is to have; null is none."""

    metadata: Metadata | None
    """All that it is to have: what is not here is gone."""


class AddItems(_Body):
    items: Annotated[Annotated[list[Item], Field(min_length=1, max_length=limits.CONVERSATION_ITEMS_MAX)], AsGiven]
    """They are added in this order, under ids of their own."""

    @property
    def items_given(self) -> list[Object]:
        """The items as the client wrote them, members not declared included."""
        return items_given(self.items)


class ForkSession(_Body):
    """Where a fork branches off, and what the new session is to be called."""

    up_to_response_id: str | None = None
    """The last response that the new session has; without it, the newest."""
    new_session_id: str | None = None
    """The name of the new session. A second request with this name gets the same fork."""
