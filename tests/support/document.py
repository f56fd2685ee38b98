"""Validates answers against the OpenAPI document that the edge serves."""

from __future__ import annotations

from functools import cache

import jsonschema_rs

from antiphon_core.jsons import Object
from antiphon_edge.openapi.document import document
from antiphon_edge.operations.forms import PATH


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    schema: Object = {"$ref": PATH + name, "components": {"schemas": document()["components"]["schemas"]}}
    return jsonschema_rs.Draft202012Validator(schema)


def require(name: str, value: object) -> None:
    """Validates a value against the schema of this name. AssertionError: the first violation."""
    for error in _validator(name).iter_errors(value):
        raise AssertionError(f"{name}: {error.message} at {list(error.instance_path)}")
