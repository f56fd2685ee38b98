"""Structured output: makes the guide for the engine and the check of the answer from `text.format`."""

from __future__ import annotations

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.text import JsonObject, JsonSchema, TextFormat
from antiphon_translator.generation import Guide, GuideKind
from antiphon_translator.schemas import normal_form, schemas, strict_schemas
from antiphon_translator.schemas.answer_check import AnswerCheck
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline

_ANY_OBJECT = AnswerCheck(schemas.read({"type": "object"}))


def guide(format: TextFormat | None) -> Guide | None:  # noqa: A002
    """The guide for an answer in this format, which has passed `answer_check`; None for plain text. The properties
    keep their order, because the model writes them in this order."""
    match format:
        case JsonSchema():
            text = dumps(normal_form.of(Outline(format.schema_))).decode()
            strict = bool(format.strict)
            return Guide(GuideKind.JSON_SCHEMA, text, format.name, description=format.description, is_strict=strict)
        case JsonObject():
            return Guide(GuideKind.JSON)
        case _:
            return None


def answer_check(format: TextFormat | None) -> AnswerCheck | None:  # noqa: A002
    """The check of answers in this format; None for plain text. InvalidRequest: the schema cannot guide any answer."""
    match format:
        case JsonSchema():
            try:
                return _check_of(format)
            except InvalidSchema as flaw:
                message = f"Invalid schema for response_format '{format.name}': {flaw}"
                raise InvalidRequest(message, field="text.format.schema", code="invalid_json_schema") from flaw
        case JsonObject():
            return _ANY_OBJECT
        case _:
            return None


def _check_of(format: JsonSchema) -> AnswerCheck:  # noqa: A002
    outline = schemas.read_guidable(format.schema_)
    if format.strict:
        strict_schemas.require(outline)
    return AnswerCheck(outline)
