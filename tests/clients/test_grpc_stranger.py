"""Calls the services with `buf curl`, which learns them by reflection and knows nothing else of Antiphon."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.rpc import error_details_pb2

from tests.support.system import serve

BUF = Path(__file__).parents[2] / "node_modules/.bin/buf"
PUBLIC = [f"antiphon.store.v1.{name}" for name in ("Conversations", "Responses", "Sessions", "Trees")]
_INTERNAL = ("Approvals", "EventLogs", "Jobs", "Prompts", "Quotas", "Retention", "Turns")
INTERNAL = [f"antiphon.store.internal.v1.{name}" for name in _INTERNAL]
GRPC = ["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"]
UNKNOWN = "resp_" + "0" * 48


@pytest.fixture(scope="module")
def store_url() -> Iterator[str]:
    with serve("store", "--store-url=memory://") as (_, address):
        yield "http://" + address


def buf_curl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(BUF), "curl", "--protocol", "grpc", "--http2-prior-knowledge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_reflection_lists_all_services(store_url: str) -> None:
    listed = buf_curl(store_url, "--list-services").stdout.split()
    assert sorted(listed) == sorted([*PUBLIC, *INTERNAL, *GRPC])


@pytest.mark.parametrize("service", [*PUBLIC, *INTERNAL])
def test_health_check_reports_each_service_as_serving(store_url: str, service: str) -> None:
    done = buf_curl("-d", json.dumps({"service": service}), f"{store_url}/grpc.health.v1.Health/Check")
    assert json.loads(done.stdout) == {"status": "SERVING"}


def test_a_call_is_answered_and_an_unknown_id_is_not_found(store_url: str) -> None:
    done = buf_curl("-d", '{"session_id": "conv-1"}', f"{store_url}/antiphon.store.v1.Sessions/DescribeSession")
    assert json.loads(done.stdout) == {"sessionId": "conv-1"}
    failed = buf_curl("-d", json.dumps({"id": UNKNOWN}), f"{store_url}/antiphon.store.v1.Responses/GetResponseRecord")
    error = json.loads(failed.stderr)
    assert error["code"] == "not_found"
    assert UNKNOWN in error["message"]
    assert error["details"][0]["type"] == "google.rpc.ErrorInfo"


def test_errors_carry_googles_bad_request_and_retry_info_details(store_url: str) -> None:
    sessions = f"{store_url}/antiphon.store.v1.Sessions/TryAcquireSession"
    wrong = json.loads(buf_curl("-d", '{"session_id": "a b", "holder": "me"}', sessions).stderr)
    assert wrong["code"] == "invalid_argument"
    details = {detail["type"]: b64decode(detail["value"] + "==") for detail in wrong["details"]}
    (violation,) = error_details_pb2.BadRequest.FromString(details["google.rpc.BadRequest"]).field_violations
    assert violation.field == "session_id"
    buf_curl("-d", '{"session_id": "s", "holder": "me"}', sessions)
    locked = json.loads(buf_curl("-d", '{"session_id": "s", "holder": "you"}', sessions).stderr)
    assert locked["code"] == "aborted"
    assert "google.rpc.RetryInfo" in {detail["type"] for detail in locked["details"]}
