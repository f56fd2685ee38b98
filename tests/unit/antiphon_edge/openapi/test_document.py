"""The OpenAPI document is complete and agrees with the server."""

from __future__ import annotations

import re

import jsonschema_rs
import pytest

from antiphon_core.errors import TABLE, ContextLengthExceeded, ModelNotFound
from antiphon_core.jsons import dumps
from antiphon_edge.openapi.document import ANYWHERE, document
from antiphon_edge.operations.table import OPERATIONS


def test_every_reference_has_its_schema_and_every_schema_is_referenced() -> None:
    schemas = document()["components"]["schemas"]
    text = dumps(document()).decode()
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert referred == set(schemas)


def test_every_schema_is_valid_json_schema() -> None:
    for schema in document()["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_error_answers_list_their_codes() -> None:
    answers = document()["paths"]["/v1/responses"]["post"]["responses"]
    assert ContextLengthExceeded.reason.lower() in answers["400"]["description"]
    assert ModelNotFound.reason.lower() in answers["404"]["description"]
    assert answers["400"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("createResponse", "limit_exceeded"),  # a session has a limit of responses
        ("getTree", "limit_exceeded"),  # a walk has a limit of steps
        ("listLeaves", "limit_exceeded"),
        ("forkSession", "conversation_locked"),  # a turn runs in the session that the fork names
    ],
)
def test_rare_error_codes_are_documented(operation: str, code: str) -> None:
    (told,) = [
        described
        for methods in document()["paths"].values()
        for described in methods.values()
        if described["operationId"] == operation
    ]
    assert code in told["responses"]["400"]["description"]


def test_statuses_that_any_route_can_have_are_documented_on_every_route() -> None:
    statuses = {str(row.http_status) for row in TABLE} & {str(status) for status in ANYWHERE}
    for methods in document()["paths"].values():
        for operation in methods.values():
            assert statuses <= set(operation["responses"])


BODIES = ("CreateRequest", "CountRequest", "CompactRequest", "ChatRequest", "CreateConversation", "AddItems")
ANSWERS = ("Response", "Usage", "ItemList", "Conversation", "ResponseNode", "NodeList", "Session", "Model")
COMMON = {"id", "name", "status", "role"}  # members of all items, described by their names


@pytest.mark.parametrize("name", [*BODIES, "UpdateConversation", "ForkSession", *ANSWERS])
def test_every_schema_member_has_a_description(name: str) -> None:
    members = document()["components"]["schemas"][name]["properties"]
    constant = {member for member, form in members.items() if "const" in form}
    assert not [member for member, form in members.items() if "description" not in form and member not in constant]


def test_every_member_of_an_output_item_has_a_description() -> None:
    schemas = document()["components"]["schemas"]
    for name in (form["$ref"].rpartition("/")[2] for form in schemas["OutputItem"]["anyOf"]):
        members = {member: form for member, form in schemas[name]["properties"].items() if "const" not in form}
        assert not [member for member, form in members.items() if "description" not in form and member not in COMMON]


def test_document_has_the_description_of_every_operation() -> None:
    told = {
        operation["operationId"]: operation.get("description")
        for methods in document()["paths"].values()
        for operation in methods.values()
    }
    assert told == {operation.name: operation.description or None for operation in OPERATIONS}


def test_create_is_documented_with_a_json_and_a_stream_answer() -> None:
    content = document()["paths"]["/v1/responses"]["post"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/event-stream"}
