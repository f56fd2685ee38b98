"""Builds the OpenAPI document from the table of operations and all schemas."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from antiphon_core.errors import TABLE, Row
from antiphon_core.jsons import Object
from antiphon_core.version import VERSION
from antiphon_edge.openapi import chat_forms, event_forms, request_forms, response_forms
from antiphon_edge.operations.forms import schema_reference
from antiphon_edge.operations.table import OPERATIONS, Operation

OPENAPI_VERSION = "3.1.0"
ANYWHERE = frozenset({401, 403, 429, 500, 503, 504})
"""Statuses of errors that any route may answer with: authentication, limits and faults."""

_JSON = "application/json"
_EVENTS = "text/event-stream"
_ABOUT = """A stateful OpenAI Responses API for NVIDIA Triton fleets.

All errors have OpenAI's envelope. A parameter that is not supported is rejected with its name, never ignored."""


@cache
def document() -> Object:
    """The document of this release. It is cached: do not modify it."""
    paths: dict[str, Object] = defaultdict(dict)
    for operation in OPERATIONS:
        paths[operation.path][operation.method.lower()] = _operation(operation)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "Antiphon", "version": VERSION, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{}, {"key": []}],
        "paths": dict(paths),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key, if the server requires one."}
            },
        },
    }


def _schemas() -> Object:
    requests = request_forms.schemas()
    return {
        **requests,
        "CompactRequest": request_forms.compact_request(requests["CreateRequest"]),
        **response_forms.SCHEMAS,
        **event_forms.SCHEMAS,
        **chat_forms.SCHEMAS,
    }


def _operation(operation: Operation) -> Object:
    described: Object = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {**_answers(operation), **_errors(operation)},
    }
    if operation.description:
        described["description"] = operation.description
    if operation.parameters:
        described["parameters"] = [parameter.as_object() for parameter in operation.parameters]
    if operation.body is not None:
        described["requestBody"] = {"required": operation.body_needed, "content": _content(operation.body)}
    return described


def _answers(operation: Operation) -> Object:
    if not operation.upgrades:
        return {"200": _answer(operation)}
    neither = {"description": "The request neither opens a WebSocket nor names a list.", "content": _content("Error")}
    return {"101": {"description": "The connection is a WebSocket."}, "200": _answer(operation), "426": neither}


def _answer(operation: Operation) -> Object:
    content = _content(operation.answer, operation.media_type)
    if operation.events is not None:
        content |= _content(operation.events, _EVENTS)
    return {"description": "Success.", "content": content}


def _errors(operation: Operation) -> Object:
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in TABLE:
        if row.http_status in ANYWHERE or row.error in operation.errors:
            rows[row.http_status].append(row)
    errors = {
        str(status): {"description": _codes(rows[status]), "content": _content("Error")} for status in sorted(rows)
    }
    if operation.not_ready:
        errors["503"] = {"description": "Not ready; `message` has the reason.", "content": _content("Health")}
    return errors


def _codes(rows: list[Row]) -> str:
    """A sentence that lists the possible values of `code`."""
    codes = sorted({row.openai_code for row in rows if row.openai_code is not None})
    return f"`code` is one of {', '.join(codes)}." if codes else "`code` may be null."


def _content(schema: str, media_type: str = _JSON) -> Object:
    return {media_type: {"schema": schema_reference(schema) if schema else {}}}
