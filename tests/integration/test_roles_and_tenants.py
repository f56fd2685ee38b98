"""Every method of the three services, called with every role and for every kind of tenant: the roles of the
table and the tenants of the credential are served, all others are rejected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from antiphon_core import audit
from antiphon_core.errors import AntiphonError, InvalidRequest, PermissionDenied, StoreUnavailable
from antiphon_core.jsons import loads
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_core.rpc.authentication import ALL_TENANTS, Guard
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT, TENANT_KEY
from antiphon_core.rpc.credentials import ClientCredentials
from antiphon_core.rpc.methods import APIS, STORE, TOOLS, TRANSLATOR
from antiphon_core.rpc.roles import Role
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import RpcServer
from antiphon_core.rpc.services import Method
from antiphon_core.rpc.status import from_grpc_error
from antiphon_store.backends.registry import row_backend
from antiphon_store.client import StoreClient
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from antiphon_tools.server import handlers as tool_handlers
from antiphon_tools.service import ToolService
from antiphon_tools.settings import ToolsSettings
from antiphon_translator.server import handlers as translator_handlers
from tests.support.grpc_statuses import lean_error
from tests.support.translators import ScriptedTranslator
from tests.support.waiting import until

TOKENS = {role: f"{role}-token-0123456789" for role in Role}
OWN, OTHER = "acme", "globex"
OF_ONE_TENANT = {role: f"{role}-of-{OWN}-0123456789" for role in Role}
METHODS = [method for api in APIS for method in api.methods.values()]
NO_MESSAGE = b"\xff\xff"
BOTH = "both-token-0123456789"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The credentials: a token for each role, and one with two roles."""
    path = tmp_path / "credentials"
    lines = [f"{role} {token} * {role}" for role, token in TOKENS.items()]
    lines += [f"{role} {token} {OWN} {role}" for role, token in OF_ONE_TENANT.items()]
    path.write_text("\n".join([*lines, f"both {BOTH} * reader,operator"]))
    return path


@pytest.fixture
async def endpoint(file: Path) -> AsyncIterator[str]:
    """A store in memory, a scripted translator and the tools service."""
    backend, server = row_backend("memory://"), RpcServer(ServerSecurity(Guard(file)))
    await backend.open()
    service = StoreService(backend)
    server.add(STORE, handlers(service), ready=service.ready)
    server.add(TRANSLATOR, translator_handlers(ScriptedTranslator()), ready=service.ready)
    server.add(TOOLS, tool_handlers(ToolService(ToolsSettings())), ready=service.ready)
    yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.drain(0)
    await backend.close()


@pytest.fixture
async def channel(endpoint: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        yield channel


async def error_of(channel: grpc.aio.Channel, method: Method, token: str, tenant: str = OWN) -> AntiphonError | None:
    """The error of a call with an invalid message: behind the guard every method rejects the message."""
    call: Any = (channel.unary_stream if method.is_streaming else channel.unary_unary)(method.path)
    rpc = call(NO_MESSAGE, metadata=(("authorization", f"Bearer {token}"), (TENANT_KEY, tenant)), timeout=60)
    try:
        await (rpc.read() if method.is_streaming else rpc)
    except grpc.aio.AioRpcError as error:
        return from_grpc_error(lean_error(error), StoreUnavailable)
    return None


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_a_method_is_served_to_its_roles_alone(channel: grpc.aio.Channel, method: Method) -> None:
    for role, token in TOKENS.items():
        error = await error_of(channel, method, token)
        assert isinstance(error, PermissionDenied) == (role not in method.row.roles), (role, error)
        assert role in method.row.roles or f"'{role}' may not call {method.path}" in str(error)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_a_method_is_served_for_the_tenants_of_the_credential_alone(
    channel: grpc.aio.Channel, method: Method
) -> None:
    for role, token in OF_ONE_TENANT.items():
        for tenant in (OWN, OTHER, DEFAULT_TENANT, DISPATCH_TENANT, ALL_TENANTS, OWN.upper(), f"{OWN},{OTHER}"):
            error = await error_of(channel, method, token, tenant)
            is_served = tenant == OWN and role in method.row.roles
            assert isinstance(error, InvalidRequest if is_served else PermissionDenied), (role, tenant, error)


async def test_a_credential_may_have_several_roles(endpoint: str) -> None:
    async with StoreClient(endpoint, credentials=ClientCredentials(token=BOTH)) as store:
        assert (await store.describe_session("t", "s")).head_id is None
        await store.sweep("t")
        with pytest.raises(PermissionDenied, match="writer, gateway"):
            await store.put("t", draft())


async def test_a_call_denied_by_role_names_its_method_and_roles(endpoint: str) -> None:
    async with StoreClient(endpoint, credentials=ClientCredentials(token=TOKENS[Role.READER])) as store:
        with pytest.raises(PermissionDenied) as caught:
            await store.put("t", draft())
    assert caught.value.facts == {
        "name": "reader",
        "method": "/antiphon.store.v1.Responses/PutResponseRecord",
        "roles": "writer, gateway",
    }


async def test_denied_calls_are_in_the_audit_log_with_their_credential(
    channel: grpc.aio.Channel, tmp_path: Path
) -> None:
    audit.configure(tmp_path / "audit")
    try:
        method = STORE.methods["DeleteResponseRecord"]
        await error_of(channel, method, OF_ONE_TENANT[Role.READER])
        await error_of(channel, method, OF_ONE_TENANT[Role.WRITER], OTHER)
        await error_of(channel, method, "unknown-token-0123456789")
        # The audit log is written after the answer.
        await until(lambda: len(read_lines(tmp_path / "audit")) == 3, "three lines in the audit log")
    finally:
        audit.configure(None)
    lines = [loads(line) for line in read_lines(tmp_path / "audit")]
    assert [(each["caller"], each["tenant"], each["result"]) for each in lines] == [
        ("credential reader", OWN, "PERMISSION_DENIED"),
        ("credential writer", OTHER, "PERMISSION_DENIED"),
        ("", "", "UNAUTHENTICATED"),
    ]


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
