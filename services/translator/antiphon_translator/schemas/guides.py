"""Chooses the guide for an answer from the members of a request."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import Parameters
from antiphon_core.request.extensions import Extensions
from antiphon_translator.generation import Guide, GuideKind
from antiphon_translator.schemas import normal_form, schemas, structured
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline

_TEXT_GUIDES = frozenset({GuideKind.REGEX, GuideKind.EBNF})
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


def of_request(parameters: Parameters, controls: frozenset[str]) -> Guide | None:
    """The guide that a request asks for, if any. `controls` are those of the engine.

    InvalidRequest: the engine takes no guides of this kind, or no grammar can be made of a schema."""
    format = parameters.text.format if parameters.text is not None else None  # noqa: A001
    guide, field = structured.guide(format), "text.format"
    if guide is None:
        guide, field = of_extensions(parameters.extensions), ".".join(("nvext", *parameters.extensions.guides))
    if guide is None:
        return None
    if "guide" not in controls:
        raise _unsupported_error(field, "cannot guide an answer")
    if guide.kind in _TEXT_GUIDES and "text_guide" not in controls:
        raise _unsupported_error(field, "takes JSON schemas only")
    return guide


def _unsupported_error(field: str, why: str) -> InvalidRequest:
    message = f"'{field}' is not supported with this model: its engine {why}."
    return InvalidRequest(message, field=field, code="unsupported_parameter")


def of_extensions(given: Extensions) -> Guide | None:
    """The guide that the members of `nvext` ask for, if any."""
    if given.guided_json is not None:
        outline = _guidable(given.guided_json)
        return Guide(GuideKind.JSON_SCHEMA, dumps(normal_form.of(outline)).decode())
    if given.guided_regex is not None:
        return Guide(GuideKind.REGEX, given.guided_regex)
    if given.guided_grammar is not None:
        return Guide(GuideKind.EBNF, given.guided_grammar)
    if given.guided_choice is not None:
        return Guide(GuideKind.REGEX, _one_of(given.guided_choice))
    return None


def _guidable(schema: Object) -> Outline:
    try:
        return schemas.read_guidable(schema)
    except InvalidSchema as flaw:
        message = f"Invalid schema for 'nvext.guided_json': {flaw}"
        raise InvalidRequest(message, field="nvext.guided_json", code="invalid_json_schema") from flaw


def _one_of(texts: Sequence[str]) -> str:
    return f"({'|'.join(map(_escape, texts))})"


def _escape(text: str) -> str:
    """A regular expression that matches exactly this text. Only special characters are escaped: engines differ in which
    other characters a backslash may precede."""
    return "".join("\\" + character if character in _SPECIAL else character for character in text)
