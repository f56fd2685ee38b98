"""`previous_response`: a whole response that a request continues, as its client has kept it. An extension.

What was said to the model before is sealed in the response; what it answered is read from its output, as from input.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.items import Item, items_given
from antiphon_core.request.models import AsGiven, Open

SEALED_CONTEXT = "encrypted_context"
"""The member of a response that holds, sealed, what was said before it."""


class PreviousResponse(Open):
    """The members that are read; a response has more."""

    id: Annotated[str, Field(min_length=1, max_length=limits.ITEM_ID_CHARS_MAX)]
    """The response's id."""
    object: Literal["response"] | None = None
    status: Literal["completed", "incomplete"] | None = None
    """A response that failed or was cancelled is not continued."""
    store: bool | None = None
    """Whether the store has it: then its id is all that is read."""
    output: Annotated[
        Annotated[list[Item], Field(max_length=limits.INPUT_ITEMS_MAX)], AsGiven, PlainSerializer(lambda given: given)
    ]
    """The items of the model's answer."""
    encrypted_context: str | None = None
    """The conversation before it, sealed; a response has it if `include` named `reasoning.encrypted_content`."""

    @property
    def output_given(self) -> list[Object]:
        """The output as the client wrote it."""
        return items_given(self.output)


def refuse_two_histories(**given: object) -> None:
    """InvalidRequest: more than one of the members that say what is continued."""
    named = [f"'{name}'" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InvalidRequest(f"{' and '.join(named)} exclude each other.", code="mutually_exclusive_parameters")
