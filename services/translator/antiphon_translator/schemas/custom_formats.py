"""The input formats of custom tools: the description that a model is shown, and the schema that guides a call.

A grammar is shown to the model together with its tool. Calls that the model is free to make are not guided by the
grammar, just as calls of `strict` functions are not guided by their schemas. A forced call is guided by the schema of
its arguments; if no schema can express the grammar, the request is rejected (forced_calls.py).
"""

from __future__ import annotations

import re

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.tools import GrammarInput, PlainInput
from antiphon_translator.schemas import schemas
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline

# Regular expressions that match only text without characters that JSON escapes. Engines apply a `pattern` to the JSON
# text itself, so a quote or a backslash that the pattern matches would end or break the JSON string. Only syntax that
# every engine supports is accepted.
_CLASS = r'\[(?:a-z|A-Z|0-9|\\[dw]|[^\\\[\]^"&~\x00-\x1f-])+-?\]'
_REPEATED = r"(?:[*+?]|\{\d+(?:,\d*)?\})(?![*+?{])"
_PIECE = rf'\\[dw.+*?()|\[\]{{}}^$]|{_CLASS}|{_REPEATED}|\((?!\?)|[^\\"\[\](){{}}*+?^$.\x00-\x1f]|\)'
_PLAIN = re.compile(rf"(?![*+?{{])(?:{_PIECE})+")  # `^*` is valid, but without its anchor begins with a repetition
_RANGES = {r"\d": "0-9", r"\w": "a-zA-Z0-9_"}


def input_schema(given: PlainInput | GrammarInput | None) -> Object:
    """The schema of the arguments with which a model calls the tool: an object with one string, `input`."""
    return {
        "type": "object",
        "properties": {"input": {"type": "string"} | _shorten(given)},
        "required": ["input"],
        "additionalProperties": False,
    }


def require(grammar: GrammarInput, path: str) -> None:
    """InvalidRequest: the definition is not a regular expression in Rust's dialect, which OpenAI uses, too."""
    if grammar.syntax != "regex":
        return
    try:
        schemas.compile_validator(Outline({"pattern": grammar.definition}))
    except InvalidSchema as flaw:
        raise InvalidRequest(
            f"Invalid value: '{path}.definition' is not a regular expression, or takes too much memory.",
            field=f"{path}.definition",
            code="invalid_value",
        ) from flaw


def can_be_held(grammar: GrammarInput) -> bool:
    """Whether the schema of the arguments can express the grammar, as a `pattern`."""
    return grammar.syntax == "regex" and _PLAIN.fullmatch(_without_anchors(grammar)) is not None


def _shorten(given: PlainInput | GrammarInput | None) -> Object:
    if not isinstance(given, GrammarInput):
        return {}
    if can_be_held(given):
        return {"pattern": f"^({_spelt_out(_without_anchors(given))})$"}
    name = "regular expression" if given.syntax == "regex" else "Lark grammar"
    return {"description": f"It must match this {name}:\n{given.definition}"}


def _without_anchors(grammar: GrammarInput) -> str:
    """A regular expression without its anchors: a match always spans the whole input."""
    return grammar.definition.removeprefix("^").removesuffix("$")


def _spelt_out(plain: str) -> str:
    r"""Replaces `\d` and `\w` in a pattern by ranges: not every engine knows these classes."""
    return re.sub(rf"{_CLASS}|\\.", _with_ranges, plain)


def _with_ranges(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("["):
        return re.sub(r"\\[dw]", lambda each: _RANGES[each[0]], text)
    return f"[{_RANGES[text]}]" if text in _RANGES else text
