"""The document is whole, and true of the server that serves it."""

from __future__ import annotations

import re

import jsonschema_rs

from antiphon_core.errors import TABLE, ContextLengthExceeded, ModelNotFound
from antiphon_core.jsons import dumps
from antiphon_edge.openapi.document import ANYWHERE, document


def test_every_reference_leads_somewhere_and_no_schema_is_left_over() -> None:
    schemas = document()["components"]["schemas"]
    text = dumps(document()).decode()
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert referred == set(schemas)


def test_every_schema_is_one() -> None:
    for schema in document()["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_errors_are_told_with_their_codes() -> None:
    answers = document()["paths"]["/v1/responses"]["post"]["responses"]
    assert ContextLengthExceeded.reason.lower() in answers["400"]["description"]
    assert ModelNotFound.reason.lower() in answers["404"]["description"]
    assert answers["400"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_what_any_route_can_answer_is_told_everywhere() -> None:
    statuses = {str(row.http_status) for row in TABLE} & {str(status) for status in ANYWHERE}
    for methods in document()["paths"].values():
        for operation in methods.values():
            assert statuses <= set(operation["responses"])


def test_streams_are_a_second_form_of_the_answer() -> None:
    content = document()["paths"]["/v1/responses"]["post"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/event-stream"}
