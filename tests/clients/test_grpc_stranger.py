"""A gRPC client that knows nothing of Antiphon: `buf curl` learns the services by reflection and calls them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.system import Command

BUF = Path(__file__).parents[2] / "node_modules/.bin/buf"
SERVICE = "antiphon.store.v1.ResponseStoreService"
UNKNOWN = "resp_" + "0" * 48


@pytest.fixture(scope="module")
def store_url() -> Iterator[str]:
    command = Command("serve", "--target=store", "--store-port=0", "--store-url=memory://")
    try:
        yield "http://" + command.wait_for(r"^store +(\S+:\d+)")[1]
    finally:
        command.stop()


def buf_curl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(BUF), "curl", "--protocol", "grpc", "--http2-prior-knowledge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_services_are_listed(store_url: str) -> None:
    listed = buf_curl(store_url, "--list-services").stdout.split()
    assert listed == [SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"]


def test_health_is_answered_for_each_service(store_url: str) -> None:
    done = buf_curl("-d", json.dumps({"service": SERVICE}), f"{store_url}/grpc.health.v1.Health/Check")
    assert json.loads(done.stdout) == {"status": "SERVING"}


def test_a_call_and_an_error(store_url: str) -> None:
    done = buf_curl("-d", '{"session_id": "conv-1"}', f"{store_url}/{SERVICE}/DescribeSession")
    assert json.loads(done.stdout) == {"sessionId": "conv-1"}
    failed = buf_curl("-d", json.dumps({"id": UNKNOWN}), f"{store_url}/{SERVICE}/Get")
    error = json.loads(failed.stderr)
    assert error["code"] == "not_found"
    assert UNKNOWN in error["message"]
    assert error["details"][0]["type"] == "google.rpc.ErrorInfo"
