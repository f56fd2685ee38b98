"""Guided decoding: turns the guide of a request into a grammar (GBNF) for llama.cpp.

The types of guides are those of TensorRT-LLM: json, json_schema, regex, ebnf_grammar. Only the trial process
(`trial.py`) runs this code: a guide comes from a client, and the conversion may take any time and memory.
"""

import json
from collections.abc import Callable

from cyllama.llama.llama_cpp import json_schema_to_grammar

from antiphon_tokens.generation import RequestError


def grammar_for(guide_type: str, guide: str) -> str:
    """The grammar for a guide, which llama.cpp may not be able to read. Raises RequestError for an unknown type, or a
    guide that has no grammar."""
    compile_guide = _COMPILERS.get(guide_type)
    if compile_guide is None:
        raise RequestError(f"unknown guided_decoding_guide_type {guide_type!r}; known: {', '.join(_COMPILERS)}")
    return compile_guide(guide)


def _any_json(_guide: str) -> str:
    return _from_schema({"type": "object"})


def _json_schema(guide: str) -> str:
    try:
        schema = json.loads(guide)
    except ValueError as error:
        raise RequestError(f"guided_decoding_guide is not JSON: {error}") from error
    return _from_schema(schema)


def _regex(guide: str) -> str:
    """Makes a grammar from a regular expression. llama.cpp supports these only as the pattern of a JSON string, so the
    string's quotes are removed from the grammar."""
    grammar = _from_schema({"type": "string", "pattern": f"^({guide})$"})
    rules = grammar.splitlines()
    head, tail = 'root ::= "\\"" ', ' "\\"" space'
    for number, rule in enumerate(rules):
        if rule.startswith(head) and rule.endswith(tail):
            rules[number] = "root ::= " + rule.removeprefix(head).removesuffix(tail)
            return "\n".join(rules)
    raise RequestError("guided_decoding_guide: llama.cpp cannot turn this regex into a grammar")


def _from_schema(schema: object) -> str:
    """The converter of llama.cpp trusts its input: a schema that it does not expect raises any error."""
    try:
        return str(json_schema_to_grammar(_with_any_values(schema)))
    except Exception as error:
        raise RequestError(f"guided_decoding_guide cannot be used: {repr(error)[:300]}") from error


_ANY_VALUE = {"description": "any value"}


def _with_any_values(schema: object) -> object:
    """The schema with each `{}` in it written in another way: the converter reads `{}` as an object."""
    if not isinstance(schema, dict):
        return schema
    changed = dict(schema)
    for keyword, nested in schema.items():
        if keyword in ("items", "additionalProperties"):
            changed[keyword] = _any_or(nested)
        elif keyword in ("properties", "$defs") and isinstance(nested, dict):
            changed[keyword] = {name: _any_or(each) for name, each in nested.items()}
        elif keyword in ("prefixItems", "anyOf", "oneOf", "allOf") and isinstance(nested, list):
            changed[keyword] = list(map(_any_or, nested))
    return changed


def _any_or(schema: object) -> object:
    return _ANY_VALUE if schema == {} else _with_any_values(schema)


_COMPILERS: dict[str, Callable[[str], str]] = {
    "json": _any_json,
    "json_schema": _json_schema,
    "regex": _regex,
    "ebnf_grammar": str,
}
