from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from antiphon_core.errors import InvalidApiKey, InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.rpc import watched
from antiphon_edge.callers import api_keys
from antiphon_edge.callers.authentication import Authenticator
from antiphon_edge.operations.table import OPERATIONS, Access
from tests.support.api_keys import PEPPER, KeyFiles, bearer, id_of
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer

SPELT = [("GET", "/v1/health%2Flive"), ("GET", "/v1/models/%2e%2e/health/live/x"), ("GET", "/v1//health/live")]
LOCAL = "127.0.0.1/32"


@dataclass(frozen=True)
class Guarded:
    """An edge with authentication by keys, and the keys of two tenants."""

    edge: RunningEdge
    acme: str
    globex: str

    async def ask(self, method: str, path: str, secret: str | None = None, **options: Any) -> Answer:
        headers = bearer(secret) if secret is not None else {}
        return await self.edge.ask(method, path, headers={**headers, **options.pop("headers", {})}, **options)

    async def create(self, secret: str, **members: Any) -> Answer:
        body = dumps({"model": "m", "input": "hi"} | members)
        return await self.ask("POST", "/v1/responses", secret, body=body)


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    files = KeyFiles(tmp_path)
    acme, globex = files.make("acme"), files.make("globex")
    async with running_edge(**files.settings) as edge:
        yield Guarded(edge, acme, globex)


def routes(edge: RunningEdge) -> list[tuple[str, str]]:
    """Every method and path that the edge serves, with an id for `{id}`."""
    found = []
    for route in edge.server.app.router.routes():
        info = route.get_info()
        path = info.get("path") or info["formatter"]
        found.append((route.method, path.replace("{id}", "resp_" + "0" * 48)))
    return found


async def test_key_identifies_the_tenant_of_a_request(guarded: Guarded) -> None:
    created = (await guarded.create(guarded.acme)).json
    path = f"/v1/responses/{created['id']}"
    assert (await guarded.ask("GET", path, guarded.acme)).json == created
    (key,) = guarded.edge.backend.stored()
    assert key[0] == "acme"


async def test_response_of_another_tenant_is_not_found(guarded: Guarded) -> None:
    mine = (await guarded.create(guarded.acme)).json["id"]
    for method, suffix in (("GET", ""), ("GET", "/input_items"), ("DELETE", "")):
        foreign = await guarded.ask(method, f"/v1/responses/{mine}{suffix}", guarded.globex)
        never = await guarded.ask(method, f"/v1/responses/resp_{'0' * 48}{suffix}", guarded.globex)
        assert (foreign.status, never.status) == (404, 404)
        assert foreign.body.replace(mine.encode(), b"") == never.body.replace(b"resp_" + b"0" * 48, b"")
    chained = await guarded.create(guarded.globex, previous_response_id=mine)
    assert (chained.status, chained.error["code"]) == (400, "previous_response_not_found")
    assert (await guarded.ask("GET", f"/v1/responses/{mine}", guarded.acme)).status == 200


async def test_request_without_a_key_is_rejected_except_for_probes(guarded: Guarded) -> None:
    # The files of the console need no key (tests/service/antiphon_edge/console/test_routes.py).
    asked = [(method, path) for method, path in routes(guarded.edge) if not path.startswith("/console")]
    opened = {operation.path for operation in OPERATIONS if operation.access is Access.OPEN}
    assert {path for _method, path in asked} > opened
    for method, path in [
        *asked,
        ("GET", "/v1/nowhere"),
        ("PUT", "/v1/responses"),
        ("OPTIONS", "/v1/responses"),
        *SPELT,
    ]:
        answer = await guarded.ask(method, path)
        if path in opened:
            assert answer.status == 200
        else:
            assert answer.status == 401, (method, path)
            assert method == "HEAD" or answer.error["code"] == "invalid_api_key"
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_missing_or_wrong_key_is_rejected_in_openais_words_and_envelope(guarded: Guarded) -> None:
    missing = await guarded.ask("GET", "/v1/models")
    assert missing.error == {
        "message": "You didn't provide an API key. You need to provide your API key in an Authorization header using "
        "Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
    wrong = guarded.acme[:-4] + "0000"
    incorrect = await guarded.ask("GET", "/v1/models", wrong)
    assert incorrect.error["message"] == f"Incorrect API key provided: ak_{id_of(wrong)}_***."


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic YWs6YWs=",
        "ak_0123456789ab",
        "Bearer sk-proj-0123456789",
        "Bearer ä",
        "Bearer ~",
    ],
)
async def test_invalid_authorization_header_is_rejected(guarded: Guarded, given: str) -> None:
    answer = await guarded.ask("GET", "/v1/models", headers={"Authorization": given})
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
    assert "sk-proj" not in answer.body.decode()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_bearer_scheme_is_case_insensitive(guarded: Guarded, scheme: str) -> None:
    answer = await guarded.ask("GET", "/v1/models", headers={"Authorization": f"{scheme} {guarded.acme}"})
    assert answer.status == 200


async def raw(edge: RunningEdge, *lines: str) -> bytes:
    """Sends the lines of a request unchanged and returns the status line of the answer."""
    url = edge.server.url.removeprefix("http://")
    host, port = url.split(":")
    request = "\r\n".join([*lines, "Host: localhost", "Connection: close", "", ""])
    with socket.create_connection((host, int(port))) as connection:
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(connection, request.encode("latin-1"))
        return (await loop.sock_recv(connection, 4096)).split(b"\r\n")[0]


async def test_two_keys_in_one_request_are_rejected(guarded: Guarded) -> None:
    one, two = (f"Authorization: Bearer {secret}" for secret in (guarded.acme, guarded.globex))
    assert b" 200 " in await raw(guarded.edge, "GET /v1/models HTTP/1.1", one)
    assert b" 401 " in await raw(guarded.edge, "GET /v1/models HTTP/1.1", one, two)


async def test_wrong_keys_over_http_are_rejected(guarded: Guarded) -> None:
    draw = random.Random(2)
    for _ in range(300):
        spoilt = bytearray(guarded.acme.encode())
        spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(7)
        given = bytes(spoilt).decode()
        if not given.isprintable() or " " in given:
            continue  # no header can carry this key
        assert (await guarded.ask("GET", "/v1/models", given)).status == 401


async def test_a_key_that_is_revoked_stops_working_without_a_restart(guarded: Guarded, tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    assert (await guarded.ask("GET", "/v1/models", guarded.acme)).status == 200
    files.keys.write_text("")
    files.make("globex")
    assert (await guarded.ask("GET", "/v1/models", guarded.acme)).status == 401


async def test_no_secret_is_in_answers_or_logs(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = "ca" * 32
    wrong = f"ak_{id_of(guarded.acme)}_{canary}"
    bodies = b""
    for secret in (wrong, guarded.acme, f"sk-{canary}", canary):
        for method, path in routes(guarded.edge):
            answer = await guarded.ask(method, path, secret, body=b"{")
            bodies += answer.body + repr(answer.headers).encode()
    assert b"invalid_api_key" in bodies
    assert f"Incorrect API key provided: ak_{id_of(wrong)}_***" in caplog.text
    kept = KeyFiles(tmp_path).keys.read_bytes()
    for secret in (canary, guarded.acme.split("_")[2], guarded.globex.split("_")[2], PEPPER):
        assert secret.encode() not in bodies
        assert secret not in caplog.text
        assert secret.encode() not in kept


async def test_newline_in_a_path_does_not_forge_a_log_line(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await guarded.ask("GET", "/v1/%0Aforged line")
    assert "forged" in caplog.text
    assert not [record for record in caplog.records if "\n" in record.getMessage()]


async def test_stream_with_a_key_completes(guarded: Guarded) -> None:
    answer = await guarded.create(guarded.acme, stream=True)
    assert answer.events[-1]["type"] == "response.completed"


# ---- Tenant headers of proxies ----


async def ask_as_tenant(edge: RunningEdge, tenant: str, **headers: str) -> Answer:
    return await edge.ask("GET", "/v1/models", headers={"X-Tenant-Id": tenant, **headers})


async def test_tenant_header_from_an_untrusted_client_is_rejected(edge: RunningEdge) -> None:
    answer = await ask_as_tenant(edge, "acme")
    assert (answer.status, answer.error["code"]) == (400, "tenant_not_accepted")
    assert answer.error["param"] == "x-tenant-id"


async def test_tenant_header_beside_a_key_is_rejected(guarded: Guarded) -> None:
    for tenant in ("acme", "globex"):
        answer = await ask_as_tenant(guarded.edge, tenant, **bearer(guarded.acme))
        assert (answer.status, answer.error["code"]) == (400, "tenant_not_accepted")


async def test_tenant_header_from_a_trusted_proxy_is_used(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    key = files.make("acme")
    async with running_edge(trusted_proxies=("10.0.0.0/8", LOCAL), **files.settings) as edge:
        body = dumps({"model": "m", "input": "hi"})
        for tenant in ("globex", "umbrella"):
            answer = await edge.ask("POST", "/v1/responses", body, headers={"x-tenant-id": tenant})
            assert answer.status == 200
        assert sorted(tenant for tenant, *_ in edge.backend.stored()) == ["globex", "umbrella"]
        assert (await edge.ask("GET", "/v1/models", headers=bearer(key))).status == 200
        assert (await edge.ask("GET", "/v1/models")).status == 401


@pytest.mark.parametrize("tenant", ["", "two words", "t" * 129, "é"])
async def test_invalid_tenant_header_from_a_proxy_is_rejected(tenant: str) -> None:
    async with running_edge(trusted_proxies=(LOCAL,)) as edge:
        answer = await ask_as_tenant(edge, tenant)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "invalid_value", "x-tenant-id")


async def test_two_tenant_headers_are_rejected() -> None:
    async with running_edge(trusted_proxies=(LOCAL,)) as edge:
        lines = ["GET /v1/models HTTP/1.1", "x-tenant-id: mine", "X-Tenant-Id: another"]
        assert b"400" in await raw(edge, *lines)


async def test_request_from_a_proxy_without_a_tenant_header_is_rejected() -> None:
    async with running_edge(trusted_proxies=(LOCAL,)) as edge:
        for headers in ({}, bearer(api_keys.new_key("0123456789ab"))):
            answer = await edge.ask("GET", "/v1/models", headers=headers)
            assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")


def request_from(peer: str | None) -> Any:
    request = make_mocked_request("GET", "/v1/models", headers={"x-tenant-id": "acme"})
    return request.clone(remote=peer) if peer is not None else request


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:11.1.2.3", False),
        ("fd00::1", True),
        ("fd00::1%eth0", True),
        ("fd01::1", False),
        ("", False),
    ],
)
def test_tenant_header_is_used_only_from_trusted_networks(peer: str, trusted: bool) -> None:
    authenticator = Authenticator(None, (ip_network("10.0.0.0/8"), ip_network("fd00::/64")))
    if trusted:
        assert authenticator.tenant_of(request_from(peer)) == "acme"
    else:
        with pytest.raises(InvalidRequest):
            authenticator.tenant_of(request_from(peer))


def test_without_keys_and_proxies_no_authentication_is_needed() -> None:
    assert Authenticator().tenant_of(make_mocked_request("GET", "/", headers=bearer("anything"))) is None
    with pytest.raises(InvalidApiKey):
        Authenticator(None, (ip_network(LOCAL),)).tenant_of(make_mocked_request("GET", "/"))


async def test_body_is_not_read_before_authentication(guarded: Guarded) -> None:
    """Otherwise unauthenticated clients could fill the memory."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(2_000):
            sent += 2**16
            yield b" " * 2**16

    try:
        status = (await guarded.ask("POST", "/v1/responses", body=endless())).status
    except aiohttp.ClientError:
        status = 401  # cut off during the upload, before the answer was read
    assert status == 401
    assert sent < 2_000 * 2**16


@pytest.mark.parametrize(("opens_metrics", "status"), [(False, 401), (True, 200)])
async def test_metrics_ask_for_a_key_unless_they_are_opened(tmp_path: Path, opens_metrics: bool, status: int) -> None:
    files = KeyFiles(tmp_path)
    files.make("acme")
    async with running_edge(opens_metrics=opens_metrics, **files.settings) as edge:
        assert (await edge.ask("GET", "/v1/metrics")).status == status
        assert (await edge.ask("GET", "/v1/models")).status == 401


@pytest.mark.parametrize(("models_open", "status"), [(False, 401), (True, 200)])
async def test_names_of_models_ask_for_a_key_unless_they_are_opened(
    tmp_path: Path, models_open: bool, status: int
) -> None:
    files = KeyFiles(tmp_path)
    files.make("acme")
    async with running_edge(models_open=models_open, **files.settings) as edge:
        for path in ("/v1/models", "/v1/models/m", "/v1/metadata"):
            assert (await edge.ask("GET", path)).status == status
        assert (await edge.ask("GET", "/v1/metrics")).status == 401
        assert (await edge.ask("POST", "/v1/responses", body=dumps({"model": "m", "input": "hi"}))).status == 401
