from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon_core import audit
from antiphon_core.jsons import Object, loads
from tests.support.api_keys import KeyFiles, bearer, id_of
from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import exchange, head

CANARY = "canary-7f3a"


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return KeyFiles(tmp_path)


@pytest.fixture
def secret(files: KeyFiles) -> str:
    return files.make("acme")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    audit.configure(tmp_path / "audit")
    yield tmp_path / "audit"
    audit.configure(None)


@pytest.fixture
async def edge(files: KeyFiles, secret: str) -> AsyncIterator[RunningEdge]:
    async with running_edge(**files.settings) as running:
        yield running


def whole(log: Path) -> str:
    return log.read_text()


def audit_lines(log: Path) -> list[tuple[Any, ...]]:
    """Caller, tenant, action, ids and result of each line."""
    lines: list[Object] = list(map(loads, whole(log).splitlines()))
    return [(each["caller"], each["tenant"], each["action"], each["ids"], each["result"]) for each in lines]


async def test_each_request_is_an_audit_line_with_key_tenant_ids_and_result(
    edge: RunningEdge, secret: str, log: Path
) -> None:
    headers = bearer(secret) | {"x-request-id": "req-1"}
    asked = {"model": "m", "input": CANARY, "metadata": {"a": CANARY}}
    made = (await edge.ask("POST", "/v1/responses", asked, headers=headers)).json["id"]
    await edge.ask("GET", f"/v1/responses/{made}/input_items?after={CANARY}", headers=headers)
    await edge.ask("DELETE", f"/v1/responses/{CANARY}", headers=headers)
    await edge.ask("POST", "/v1/responses", {"model": CANARY, "input": CANARY}, headers=headers)
    caller = f"key {id_of(secret)}"
    assert [line[:3] for line in audit_lines(log)] == [
        (caller, "acme", "POST /v1/responses"),
        (caller, "acme", "GET /v1/responses/{id}/input_items"),
        (caller, "acme", "DELETE /v1/responses/{id}"),
        (caller, "acme", "POST /v1/responses"),
    ]
    assert [line[3:] for line in audit_lines(log)][:3] == [([made], "200"), ([made], "400"), ([CANARY], "404")]
    text = whole(log)
    assert text.count(CANARY) == 1  # as an id in a path
    assert secret not in text
    assert text.count('"request_id":"req-1"') == 4


async def test_audit_line_of_an_unauthenticated_request_has_no_caller_and_no_tenant(
    edge: RunningEdge, log: Path
) -> None:
    await edge.ask("GET", "/v1/models", headers=bearer("ak_0123456789ab_" + "0" * 64))
    assert audit_lines(log) == [("", "", "GET /v1/models", [], "401")]


async def test_probes_and_unknown_paths_are_not_audited(edge: RunningEdge, secret: str, log: Path) -> None:
    for path in ("/v1/health/live", "/openapi.json", "/nothing"):
        await edge.ask("GET", path, headers=bearer(secret))
    assert audit_lines(log) == []


async def test_each_turn_of_a_websocket_is_an_audit_line(edge: RunningEdge, secret: str, log: Path) -> None:
    address = edge.http.url + "/v1/responses"
    async with edge.http.session.ws_connect(address, headers=bearer(secret)) as socket:
        for model in ("m", "unknown"):
            await socket.send_json({"type": "response.create", "model": model, "input": CANARY})
            while (await socket.receive_json())["type"] not in ("response.completed", "error"):
                pass
    lines = audit_lines(log)
    assert [(line[2], line[4]) for line in lines[:2]] == [
        ("WEBSOCKET response.create", "200"),
        ("WEBSOCKET response.create", "404"),
    ]
    assert lines[0][3][0].startswith("resp_")
    assert CANARY not in whole(log)


async def test_lost_audit_lines_fail_no_request(edge: RunningEdge, secret: str, log: Path) -> None:
    fill(log)
    body = {"model": "m", "input": CANARY}
    assert (await edge.ask("POST", "/v1/responses", body, headers=bearer(secret))).status == 200


async def test_required_audit_log_that_is_full_rejects_requests_before_their_turns(
    edge: RunningEdge, secret: str, log: Path
) -> None:
    audit.configure(log, is_required=True)
    fill(log)
    answer = await edge.ask("POST", "/v1/responses", {"model": "m", "input": CANARY}, headers=bearer(secret))
    assert (answer.status, answer.json["error"]["code"], edge.translator.turns) == (503, "audit_unavailable", [])
    assert (await edge.ask("GET", "/v1/models", headers=bearer(secret[:-1] + "_"))).status == 401
    assert (await edge.ask("GET", "/v1/health/live")).status == 200
    clear(log)
    answer = await edge.ask("POST", "/v1/responses", {"model": "m", "input": CANARY}, headers=bearer(secret))
    assert (answer.status, len(edge.translator.turns)) == (200, 1)
    assert [line[2:] for line in audit_lines(log)] == [
        ("POST /v1/responses", [], "started"),
        ("POST /v1/responses", [answer.json["id"]], "200"),
    ]


async def test_required_audit_log_rejects_turns_of_an_open_websocket(edge: RunningEdge, secret: str, log: Path) -> None:
    audit.configure(log, is_required=True)
    async with edge.http.session.ws_connect(edge.http.url + "/v1/responses", headers=bearer(secret)) as socket:
        fill(log)
        await socket.send_json({"type": "response.create", "model": "m", "input": CANARY})
        event = await socket.receive_json()
    assert (event["type"], event["error"]["code"], edge.translator.turns) == ("error", "audit_unavailable", [])


def fill(log: Path) -> None:
    """Puts a device that is always full in the place of the log."""
    log.unlink(missing_ok=True)
    log.symlink_to("/dev/full")


def clear(log: Path) -> None:
    log.unlink()


async def test_audit_line_names_a_proxy_by_its_address(log: Path) -> None:
    async with running_edge(tenants=True) as edge:
        await edge.ask("GET", "/v1/models", headers={"x-tenant-id": "globex"})
    assert audit_lines(log) == [("proxy 127.0.0.1", "globex", "GET /v1/models", [], "200")]


async def test_a_body_that_cannot_be_read_has_the_status_of_its_answer(secret: str, files: KeyFiles, log: Path) -> None:
    encoded = bearer(secret) | {"Content-Encoding": "gzip"}
    async with running_edge(**files.settings, read_timeout_s=0.1) as edge:
        malformed = await edge.ask("POST", "/v1/responses", b"no gzip", headers=encoded)
        headers = [f"{name}: {value}".encode() for name, value in bearer(secret).items()]
        late = await exchange(edge.server.url, head(b"POST /v1/responses", b"Content-Length: 9", *headers) + b"{")
    assert (malformed.status, late.status) == (400, 408)
    assert [line[4] for line in audit_lines(log)] == ["400", "408"]
