"""JSON schemas of request bodies, generated from the pydantic models that validate them.

Descriptions tell the rules that a schema cannot express, such as members that are known but not supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema

from antiphon_core.jsons import Object
from antiphon_core.request.body import CountRequest, CreateRequest
from antiphon_core.request.prompts import PutPrompt
from antiphon_edge.chat.body import ChatRequest
from antiphon_edge.conversation_requests import AddItems, CreateConversation, ForkSession, UpdateConversation
from antiphon_edge.openapi.member_docs import member_docs
from antiphon_edge.operations.forms import PATH
from antiphon_edge.routes.compact import MEMBERS as COMPACT_MEMBERS

BODIES: tuple[type[BaseModel], ...] = (
    CreateRequest,
    CountRequest,
    CreateConversation,
    UpdateConversation,
    AddItems,
    PutPrompt,
    ForkSession,
    ChatRequest,
)


class _Plain(GenerateJsonSchema):
    """Generates schemas with the docstrings of members, without titles that repeat a name, and without `default: null`
    for optional members."""

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        found: dict[str, Any] = super().model_schema(schema)
        docs = member_docs(schema["cls"])
        for name, member in found.get("properties", {}).items():
            if name in docs:
                member.setdefault("description", docs[name])
        return found

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found: dict[str, Any] = super().default_schema(schema)
        if found.get("default", ...) is None:
            del found["default"]
        return found


def schemas(bodies: tuple[type[BaseModel], ...] = BODIES) -> Mapping[str, Object]:
    """The schemas of `bodies` and of all models in them, by name."""
    _, found = models_json_schema(
        [(body, "validation") for body in bodies], ref_template=PATH + "{model}", schema_generator=_Plain
    )
    named: dict[str, Object] = found["$defs"]
    for schema in named.values():
        schema.pop("title", None)
    return named


def compact_request(create: Object) -> Object:
    """The schema of the body of a compaction: some members of a create request."""
    properties = {name: form for name, form in create["properties"].items() if name in COMPACT_MEMBERS}
    return {"type": "object", "properties": properties, "required": ["model"], "additionalProperties": False}
