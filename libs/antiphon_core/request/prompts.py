"""Stored prompts in requests: the reference to one in a create request (`prompt`), and the body that stores one."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Discriminator, Field, StringConstraints, Tag

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.errors import TAG
from antiphon_core.request.items import FilePart, ImagePart, Message, TextPart, items_given
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import AsGiven, Body, Exact

VARIABLE = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
"""The pattern of names of variables, which a prompt uses as `{{name}}`."""


class TextValue(TextPart):
    """A text as the value of a variable."""

    type: Literal["input_text"]


def _value_tag(value: object) -> str | None:
    if isinstance(value, str):
        return TAG + "string"
    given = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return TAG + str(given) if given is not None else None


Value = Annotated[
    Annotated[str, Tag(TAG + "string")]
    | Annotated[TextValue, Tag(TAG + "input_text")]
    | Annotated[ImagePart, Tag(TAG + "input_image")]
    | Annotated[FilePart, Tag(TAG + "input_file")],
    Discriminator(_value_tag),
]


class PromptRef(Exact):
    """A stored prompt, and the values of its variables."""

    id: str
    """The id of a prompt of `/v1/prompts`."""
    version: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}$")] | None = None
    """The version of the prompt; the default is the latest."""
    variables: Annotated[dict[str, Value], AtMost(limits.PROMPT_VARIABLES_ITEMS_MAX)] | None = None
    """The value of each variable `{{name}}` in the prompt: a text, an image or a file."""

    @property
    def values(self) -> dict[str, str | Object]:
        """The values by name, as JSON."""
        given = self.variables or {}
        return {
            name: value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
            for name, value in given.items()
        }


class PutPrompt(Body):
    """One version of a prompt: its instructions and messages."""

    instructions: Annotated[str, Field(min_length=1)] | None = None
    """Instructions for responses whose request has none. `{{name}}` is a variable."""
    input: Annotated[Annotated[list[Message], AtMost(limits.PROMPT_MESSAGES_ITEMS_MAX)], AsGiven] | None = None
    """Messages that come before the input of the request. `{{name}}` in their texts is a variable."""

    @property
    def content(self) -> Object:
        """The prompt as it is stored: messages as the client wrote them, without ids and statuses."""
        messages = [
            {name: value for name, value in message.items() if name not in ("id", "status")}
            for message in items_given(self.input or ())
        ]
        instructions: Object = {"instructions": self.instructions} if self.instructions is not None else {}
        return instructions | ({"input": messages} if messages else {})

    @classmethod
    def of(cls, given: Object, *, work_bytes: int) -> Self:
        request = super().of(given, work_bytes=work_bytes)
        if request.instructions is None and not request.input:
            raise InvalidRequest(
                "A prompt needs 'instructions' or 'input'.", field="instructions", code="missing_required_parameter"
            )
        return request
