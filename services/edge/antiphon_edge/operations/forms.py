"""Helpers that build JSON schemas."""

from __future__ import annotations

from antiphon_core.jsons import Object

STRING: Object = {"type": "string"}
INTEGER: Object = {"type": "integer"}
NUMBER: Object = {"type": "number"}
BOOLEAN: Object = {"type": "boolean"}
ANY_OBJECT: Object = {"type": "object"}
PATH = "#/components/schemas/"


def record(required: Object, optional: Object | None = None, *, description: str | None = None) -> Object:
    """An object with these members. It may have others, which clients must ignore."""
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


def schema_reference(name: str) -> Object:
    """A reference to the schema with this name."""
    return {"$ref": PATH + name}


def any_of(*names: str) -> Object:
    """One of the schemas with these names."""
    return {"anyOf": [schema_reference(name) for name in names]}


def doc(schema: Object, description: str) -> Object:
    return schema | {"description": description}


def frame(data: str, description: str) -> Object:
    """A server-sent event as an object of its fields. `data` names the schema of its data; the last frame is [DONE]."""
    content: Object = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": schema_reference(data),
    }
    return record({"data": {"anyOf": [const("[DONE]"), content]}}, {"event": STRING}, description=description)
