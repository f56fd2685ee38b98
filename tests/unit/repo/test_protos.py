"""The .proto files agree with the Python code: the table of methods, and the reasons of errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon_core.errors import TABLE, GrpcStatus, InvalidApiKey, Row
from antiphon_core.rpc.methods import APIS, STORE
from antiphon_core.rpc.roles import list_roles
from antiphon_core.rpc.services import Api, Method
from antiphon_protos.antiphon.store import v1
from tests.support.cases import in_one_test

PROTOS = Path(__file__).parents[3] / "protos/antiphon"
RPC = re.compile(r"((?:  //[^\n]*\n)+)  rpc (\w+)\(")
REASON = re.compile(r"((?:  //[^\n]*\n)*)  ERROR_REASON_(\w+) = [1-9]")
# Reasons of the edge, the translator and its engines, which no RPC of the store has.
OTHERS = {
    "CONTEXT_LENGTH_EXCEEDED", "INVALID_API_KEY", "MODEL_NOT_FOUND", "SESSION_LOST", "REQUEST_RATE_EXCEEDED",
    "TOKEN_RATE_EXCEEDED", "TRANSLATOR_UNAVAILABLE", "ENGINE_UNAVAILABLE", "ENGINE_OVERLOADED", "ENGINE_TIMEOUT",
    "ENGINE_FAULT", "ENGINE_MISCONFIGURED", "SERVICE_FAULT", "TOOLS_UNAVAILABLE", "TOOL_SERVER_FAULT",
}  # fmt: skip


def comments() -> dict[str, str]:
    """Returns the comment of every RPC of the store as one line, by the name of the RPC."""
    texts = [path.read_text(encoding="utf-8") for path in PROTOS.glob("store/**/*.proto")]
    return {
        name: " ".join(line.strip(" /") for line in comment.splitlines())
        for text in texts
        for comment, name in RPC.findall(text)
    }


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_the_method_table_matches_the_descriptors(api: Api) -> None:
    for service in api.services:
        declared = {method.name: method.server_streaming for method in service.descriptor.methods}
        assert {name: method.is_streaming for name, method in service.methods.items()} == declared


@in_one_test("method", STORE.methods)
def test_rpc_comments_end_with_roles_deadline_and_repeatability(method: Method) -> None:
    row = method.row
    deadline = "none" if row.deadline_s is None else f"{row.deadline_s:g} s"
    assert comments()[method.name].endswith(f"Roles: {list_roles(row.roles)}. Deadline: {deadline}. {row.repeat}")


def test_proto_error_reasons_match_the_error_table() -> None:
    reasons = {each.betterproto_value_to_renamed_proto_names()[each] for each in v1.ErrorReason}
    declared = {reason.removeprefix("ERROR_REASON_") for reason in reasons} - {"UNSPECIFIED"}
    assert declared == {row.reason for row in TABLE} - OTHERS


@in_one_test("row", {row.reason: row for row in TABLE if row.reason not in OTHERS})
def test_comments_of_error_reasons_name_their_grpc_code(row: Row) -> None:
    """The code is in the comment of the reason or of an earlier reason."""
    text, code = (PROTOS / "store/v1/errors.proto").read_text(encoding="utf-8"), ""
    codes = {}
    for comment, reason in REASON.findall(text):
        named = re.match(r"\s*// ([A-Z_]+):", comment)
        code = named[1] if named else code
        codes[reason] = code
    assert codes[row.reason] == row.grpc_status.name


def test_error_reasons_of_one_cause_share_a_grpc_code() -> None:
    """For example, a missing parent and a missing response are both NOT_FOUND."""
    codes = {row.reason: row.grpc_status for row in TABLE}
    not_found = {reason for reason in codes if reason.endswith("NOT_FOUND")}
    assert {codes[reason] for reason in not_found} == {GrpcStatus.NOT_FOUND}
    assert {reason for reason, code in codes.items() if code is GrpcStatus.UNAUTHENTICATED} == {
        "UNAUTHENTICATED",
        InvalidApiKey.reason,
    }
