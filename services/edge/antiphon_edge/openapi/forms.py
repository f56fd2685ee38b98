"""The few words that JSON schemas are written with here."""

from __future__ import annotations

from antiphon_core.jsons import Object

STRING: Object = {"type": "string"}
INTEGER: Object = {"type": "integer"}
NUMBER: Object = {"type": "number"}
BOOLEAN: Object = {"type": "boolean"}
ANY_OBJECT: Object = {"type": "object"}
PATH = "#/components/schemas/"


def record(required: Object, optional: Object | None = None, *, description: str | None = None) -> Object:
    """An object with these members. More may be there: clients must pass over what they do not know."""
    schema: Object = {"type": "object", "properties": required | (optional or {}), "required": list(required)}
    return schema if description is None else schema | {"description": description}


def array(items: Object) -> Object:
    return {"type": "array", "items": items}


def mapping(values: Object) -> Object:
    return {"type": "object", "additionalProperties": values}


def nullable(schema: Object) -> Object:
    return {"anyOf": [schema, {"type": "null"}]}


def const(value: str) -> Object:
    return {"type": "string", "const": value}


def one_of(values: list[str]) -> Object:
    return {"type": "string", "enum": values}


def named(name: str) -> Object:
    """Whatever stands under this name in the document."""
    return {"$ref": PATH + name}


def any_of(*names: str) -> Object:
    """One of these, by name."""
    return {"anyOf": [named(name) for name in names]}


def said(schema: Object, description: str) -> Object:
    return schema | {"description": description}


def frame(data: str, description: str) -> Object:
    """One server-sent event as a record of its fields, with what is in `data` by name. [DONE] is the last of each."""
    content: Object = {"type": "string", "contentMediaType": "application/json", "contentSchema": named(data)}
    return record({"data": {"anyOf": [const("[DONE]"), content]}}, {"event": STRING}, description=description)
