"""Authentication of the gRPC services: tokens and tenants, on every RPC, and in processes as operators run them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from antiphon_core.errors import (
    AntiphonError,
    PermissionDenied,
    ResponseNotFound,
    StoreUnavailable,
    Unauthenticated,
    Unavailable,
)
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.rpc import watched
from antiphon_core.rpc.checked_stream import CHECK_INTERVAL_S
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.methods import APIS, STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import RpcServer
from antiphon_core.rpc.services import Method
from antiphon_store.backends.registry import row_backend
from antiphon_store.client import StoreClient
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import draft
from tests.support.certificates import authority, signed_by
from tests.support.system import serve

EDGE, BILLING, WRONG = "edge-token-0123456789", "billing-token-0123456789", "wrong-token-0123456789"
ROLES = "reader,writer,gateway,operator"
FILE = f"edge {EDGE} * {ROLES}\nbilling {BILLING} acme,globex {ROLES}\n"
METHODS = [method for api in APIS for method in api.methods.values()]
FRAME = b'event: x\ndata: {"type": "x", "sequence_number": 0}\n\n'


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "credentials"
    path.write_text(FILE)
    return path


@pytest.fixture
async def endpoint(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A store in this process that requires tokens, and reads a changed file at once."""
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    settings = StoreSettings(token_file=tokens)
    backend = row_backend("memory://", durability="disk")
    await backend.open()
    service = StoreService(backend, settings)
    server = RpcServer(ServerSecurity.of(settings))
    server.add(STORE, handlers(service), ready=service.ready)
    for other in APIS[1:]:
        server.add(other, {}, ready=service.ready)
    yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.drain(0)
    await backend.close()


def client(endpoint: str, token: str | None = None) -> StoreClient:
    return StoreClient(endpoint, credentials=ClientCredentials(token=token) if token else ANONYMOUS)


async def test_a_token_speaks_for_its_tenants_and_no_other(endpoint: str) -> None:
    record = draft()
    async with client(endpoint, EDGE) as edge, client(endpoint, BILLING) as billing:
        await billing.put("acme", record)
        assert (await edge.get("acme", record.id)).id == record.id
        with pytest.raises(ResponseNotFound):
            await billing.get("globex", record.id)
        for tenant in ("default", "umbrella"):
            with pytest.raises(PermissionDenied, match=f"'billing' may not speak for the tenant '{tenant}'"):
                await billing.get(tenant, record.id)
            with pytest.raises(ResponseNotFound):
                await edge.get(tenant, record.id)


async def test_calls_without_a_valid_token_are_rejected_and_logged_without_it(
    endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(endpoint) as anonymous, client(endpoint, WRONG) as stranger:
        with pytest.raises(Unauthenticated, match="carries no token"):
            await anonymous.put("acme", draft())
        with pytest.raises(Unauthenticated, match="token of this call is unknown") as caught:
            await stranger.put("acme", draft())
    assert WRONG not in str(caught.value)
    refusals = [record.message for record in caplog.records if record.name == "antiphon_core.rpc.server"]
    assert len(refusals) == 2
    assert all("Responses/PutResponseRecord from ipv4:127.0.0.1" in refusal for refusal in refusals)
    assert WRONG not in caplog.text


@pytest.mark.parametrize("second", [EDGE, BILLING, WRONG])
async def test_calls_with_two_tokens_are_rejected(endpoint: str, second: str) -> None:
    method, tokens = METHODS[0], [("authorization", f"Bearer {token}") for token in (EDGE, second)]
    for metadata in (tokens, tokens[::-1]):
        assert await refusal_of(endpoint, method, b"", *metadata) is grpc.StatusCode.UNAUTHENTICATED


async def refusal_of(endpoint: str, method: Method, data: bytes, *metadata: tuple[str, str]) -> grpc.StatusCode:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        call: Any = (channel.unary_stream if method.is_streaming else channel.unary_unary)(method.path)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            rpc = call(data, metadata=metadata, timeout=60)
            await (rpc.read() if method.is_streaming else rpc)
        return caught.value.code()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_every_rpc_authenticates_before_it_parses_the_request(endpoint: str, method: Method) -> None:
    """Covers RPCs that are not implemented, and requests that are no valid messages."""
    bearer = ("authorization", f"Bearer {BILLING}")
    for data in (b"", b"\xff\xff"):
        assert await refusal_of(endpoint, method, data) is grpc.StatusCode.UNAUTHENTICATED
        # A call without a tenant is for the default tenant, which this credential does not cover.
        assert await refusal_of(endpoint, method, data, bearer) is grpc.StatusCode.PERMISSION_DENIED
    admitted = await refusal_of(endpoint, method, b"\xff\xff", bearer, ("antiphon-tenant", "acme"))
    implemented = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
    assert admitted in implemented


async def test_a_stream_rpc_authenticates_its_caller(endpoint: str) -> None:
    record = draft()
    append = EventAppend(record.id, 0, 1, FRAME, terminal=True)
    async with client(endpoint, BILLING) as billing, client(endpoint, WRONG) as stranger:
        await billing.append_events("acme", append)
        async with aclosing(billing.read_events("acme", record.id)) as batches:
            assert b"".join([batch.frames async for batch in batches]) == FRAME
        for store, tenant, error in (
            (billing, "umbrella", PermissionDenied),
            (stranger, "acme", Unauthenticated),
        ):
            with pytest.raises(error):
                async with aclosing(store.read_events(tenant, record.id)) as batches:
                    await anext(batches)


async def outcome(store: StoreClient) -> type[AntiphonError]:
    with pytest.raises(AntiphonError) as caught:
        await store.get("acme", draft().id)
    return caught.type


def rotate(path: Path, content: str) -> None:
    path.write_text(content)


async def test_tokens_are_rotated_without_a_restart(
    endpoint: str, tokens: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = "new-token-0123456789"
    async with client(endpoint, EDGE) as old_edge, client(endpoint, new) as new_edge:
        assert (await outcome(old_edge), await outcome(new_edge)) == (ResponseNotFound, Unauthenticated)
        rotate(tokens, f"{FILE}edge {new} * {ROLES}\n")
        assert (await outcome(old_edge), await outcome(new_edge)) == (ResponseNotFound, ResponseNotFound)
        rotate(tokens, f"edge {new} * {ROLES}\n")
        assert (await outcome(old_edge), await outcome(new_edge)) == (Unauthenticated, ResponseNotFound)
        rotate(tokens, f"edge {EDGE}\n")
        assert (await outcome(old_edge), await outcome(new_edge)) == (Unauthenticated, ResponseNotFound)
    assert "2 words instead of four" in caplog.text
    assert EDGE not in caplog.text


async def test_a_client_follows_its_token_file(endpoint: str, tokens: Path, tmp_path: Path) -> None:
    new = "new-token-0123456789"
    own = tmp_path / "token"
    own.write_text(EDGE + "\n")
    async with StoreClient(endpoint, credentials=ClientCredentials(token_file=own)) as store:
        assert await outcome(store) is ResponseNotFound
        rotate(tokens, f"edge {new} * {ROLES}\n")
        assert await outcome(store) is Unauthenticated
        rotate(own, new + "\n")
        assert await outcome(store) is ResponseNotFound


async def test_probes_need_no_token(endpoint: str) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", *(each.full_name for each in STORE.services)):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
    async with client(endpoint) as anonymous:
        await anonymous.ready()


# ---- Processes ----


async def test_a_store_process_with_a_token_file_requires_tokens(tokens: Path) -> None:
    with serve("store", "--store-url=memory://", f"--store-token-file={tokens}") as (command, address):
        command.wait_for(r"^store .*\(gRPC, tokens\)")
        async with client(address, BILLING) as billing, client(address) as anonymous:
            assert await outcome(billing) is ResponseNotFound
            assert await outcome(anonymous) is Unauthenticated


async def test_a_store_process_with_a_client_ca_accepts_only_clients_with_certificates(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    server, own = signed_by(ca, tmp_path, "server"), signed_by(ca, tmp_path, "client")
    options = [
        f"--store-tls-cert-file={server.cert}",
        f"--store-tls-key-file={server.key}",
        f"--store-tls-client-ca-file={ca.cert}",
    ]
    credentials = ClientCredentials(tls_ca_file=ca.cert, tls_cert_file=own.cert, tls_key_file=own.key)
    with serve("store", "--store-url=memory://", *options) as (command, address):
        command.wait_for(r"^store .*\(gRPC, client certificates, TLS\)")
        without_certificate = ClientCredentials(tls_ca_file=ca.cert)
        async with (
            StoreClient(address, credentials=credentials) as store,
            StoreClient(address, credentials=without_certificate) as stranger,
        ):
            assert await outcome(store) is ResponseNotFound
            assert await outcome(stranger) is StoreUnavailable


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--target=store", "--store-host=0.0.0.0"], "set ANTIPHON_STORE_INSECURE where the network authenticates"),
        (["--target=translator", "--translator-host=0.0.0.0"], "Set ANTIPHON_TRANSLATOR_TOKEN_FILE"),
        (["--target=edge", "--edge-host=0.0.0.0"], "or set ANTIPHON_EDGE_INSECURE where the network authenticates"),
        (["--target=store", "--store-token-file=/gone"], "Cannot read the credentials file /gone"),
        (
            ["--target=edge", "--edge-store=h:1", "--edge-translator=h:2", "--edge-store-token-file=/gone"],
            "Cannot read the token file /gone",
        ),
    ],
)
def test_a_service_without_working_authentication_does_not_start(options: list[str], says: str) -> None:
    command = [sys.executable, "-m", "antiphon", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("antiphon: ")]
    assert says in line


def test_the_insecure_setting_starts_an_open_store_with_a_warning() -> None:
    with serve("store", "--store-url=memory://", "--store-host=0.0.0.0", "--store-insecure=true") as (
        command,
        _address,
    ):
        command.wait_for(r"^warning: The store listens on 0.0.0.0, and its callers are not authenticated")
        command.wait_for(r"^store .*\(gRPC, no authentication\)")


def replace(tokens: Path, content: str) -> None:
    tokens.write_text(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"billing {BILLING} * {ROLES}\n", Unauthenticated),
        (f"edge {EDGE} * reader\n", PermissionDenied),
        (f"edge {EDGE} globex {ROLES}\n", PermissionDenied),
        (f"edge {EDGE}-new * {ROLES}\n", Unavailable),
    ],
    ids=["revoked", "without the role", "without the tenant", "rotated"],
)
async def test_reading_events_ends_with_the_credential(
    endpoint: str, tokens: Path, content: str, expected: type[Exception]
) -> None:
    """Also while the log is silent, and the stream of another token goes on."""
    record = draft()
    response_id = record.id
    async with client(endpoint, EDGE) as edge, client(endpoint, BILLING) as billing:
        await edge.put("acme", record)
        await edge.append_events("acme", EventAppend(response_id, 0, 1, FRAME))
        async with aclosing(edge.read_events("acme", response_id, follow=True)) as batches:
            await anext(batches)
            replace(tokens, content + (f"billing {BILLING} * {ROLES}\n" if "billing" not in content else ""))
            with pytest.raises(expected):
                await anext(batches)
        async with aclosing(billing.read_events("acme", response_id, follow=True)) as others:
            await anext(others)
            waiting = asyncio.ensure_future(anext(others))
            done, _ = await asyncio.wait([waiting], timeout=2 * CHECK_INTERVAL_S)
            assert not done
            await billing.append_events("acme", EventAppend(response_id, 1, 1, FRAME.replace(b"0", b"1")))
            assert (await waiting).first_sequence == 1
