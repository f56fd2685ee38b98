"""The extension `previous_response`: a whole response that a request continues, as the client received it.

The conversation before that response is in its encrypted member SEALED_CONTEXT. The model's answer is read from its
`output`, and validated like input.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.items import Item, items_given
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import AsGiven, Open

SEALED_CONTEXT = "encrypted_context"
"""The member of a response that has the encrypted conversation before it."""


class PreviousResponse(Open):
    """The response to continue. Only the members that are declared here are read."""

    id: Annotated[str, Field(min_length=1, max_length=limits.ITEM_ID_CHARS_MAX)]
    """The response's id."""
    object: Literal["response"] | None = None
    status: Literal["completed", "incomplete"] | None = None
    """The status; a response that failed or was cancelled cannot be continued this way."""
    store: bool | None = None
    """Whether the response is stored. If it is, only its id is used."""
    output: Annotated[
        Annotated[list[Item], AtMost(limits.INPUT_ITEMS_MAX)], AsGiven, PlainSerializer(lambda given: given)
    ]
    """The items of the model's answer."""
    encrypted_context: str | None = None
    """The encrypted conversation before the response, which a response has if `include` named
    `reasoning.encrypted_content`."""

    @property
    def output_given(self) -> list[Object]:
        """The output as the client wrote it."""
        return items_given(self.output)
