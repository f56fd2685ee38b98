"""The parameter `text`: the form of the answer.

Whether a JSON schema is supported is checked by the translator (antiphon_translator.schemas.structured).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.request.errors import TAG
from antiphon_core.request.models import Exact, type_tag

SchemaName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=limits.SCHEMA_NAME_CHARS_MAX)]


class PlainText(Exact):
    type: Literal["text"]


class JsonObject(Exact):
    """JSON mode: any JSON object. Unlike OpenAI, the input need not mention JSON."""

    type: Literal["json_object"]


class JsonSchema(Exact):
    type: Literal["json_schema"]
    name: SchemaName
    """The name of the schema."""
    schema_: Annotated[Object, Field(alias="schema")]
    """The JSON schema that the answer has to match."""
    strict: bool | None = None
    """Whether the schema must keep OpenAI's rules for strict schemas."""
    description: str | None = None
    """The purpose of the answer."""


TextFormat = Annotated[
    Annotated[PlainText, Tag(TAG + "text")]
    | Annotated[JsonObject, Tag(TAG + "json_object")]
    | Annotated[JsonSchema, Tag(TAG + "json_schema")],
    Discriminator(type_tag),
]


class Text(Exact):
    format: TextFormat | None = None
    """The format of the answer; the default is free text."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """A hint without effect: the response says `medium`."""
