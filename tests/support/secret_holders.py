"""A running user for each secret file: a server that authenticates callers with it, or a client that presents it.

A holder answers three questions before and after the file is damaged: whether a known caller is served, whether a
stranger is served, and whether a process can start with the file. `HOLDERS` has a holder for each setting of a secret
file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from antiphon_core.clock import SystemClock
from antiphon_core.errors import AntiphonError
from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import RpcServer
from antiphon_core.rpc.settings import RpcServerSettings
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.cache_salts import CacheSalts
from antiphon_edge.callers.api_keys import KeyGuard
from antiphon_edge.sealed.sealing import BadSeal, Sealer
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_edge.turn_settings import Peer, TurnSettings
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.encryption import configured_rows
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import draft
from antiphon_tools.settings import ToolsSettings
from antiphon_tools.web.web_search import ConfiguredSearch
from antiphon_translator.engines import request_headers
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.settings import TranslatorSettings
from tests.support.api_keys import KeyFiles, bearer
from tests.support.certificates import Certificate, authority, signed_by
from tests.support.edge import running_edge
from tests.support.fake_chat import MODEL, fake_chat
from tests.support.waiting import WAIT_MAX_S

KEY = "Bearer sk-0123456789"
TOKEN = "token-0123456789abcdef"
Answers = Callable[[], Any]


@dataclass(frozen=True)
class Holder:
    """The user of a file. `serves` and `serves_stranger` are coroutine functions that tell whether a caller is served;
    `start` raises SettingsError for a file that cannot be used."""

    path: Path
    serves: Answers
    serves_stranger: Answers
    start: Callable[[], object]


Opened = Callable[[Path], AbstractAsyncContextManager[Holder]]


# ---- The edge's callers ----


@asynccontextmanager
async def _api_keys(name: str, folder: Path) -> AsyncIterator[Holder]:
    files = KeyFiles(folder)
    known = bearer(files.make("acme"))
    async with running_edge(**files.settings, secrets_grace_s=0.0) as edge:

        async def serves(headers: Mapping[str, str]) -> bool:
            return (await edge.ask("GET", "/v1/models", headers=headers)).status == 200

        start = partial(KeyGuard, files.keys, files.pepper, clock=SystemClock())
        yield Holder(folder / name, partial(serves, known), partial(serves, bearer("ak_0_0")), start)


@asynccontextmanager
async def _sealing_keys(folder: Path) -> AsyncIterator[Holder]:
    path = folder / "sealing"
    path.write_text(f"one {'0' * 64}\n")
    sealer = Sealer.of(path, ttl_s=60, clock=SystemClock(), grace_s=0.0)
    sealed = sealer.seal("acme", "x")

    async def opens(tenant: str) -> bool:
        try:
            sealer.seal(tenant, "y")
            return sealer.open(tenant, sealed) == "x"
        except (AntiphonError, BadSeal):
            return False

    yield Holder(
        path, partial(opens, "acme"), partial(opens, "globex"), partial(Sealer.of, path, ttl_s=60, clock=SystemClock())
    )


@asynccontextmanager
async def _encryption_keys(folder: Path) -> AsyncIterator[Holder]:
    """A sealed store. A stranger's key cannot read its content."""
    path = folder / "encryption"
    path.write_text(f"one {'0' * 64}\n")
    settings = StoreSettings(encryption_keys_file=path, secrets_grace_s=0.0)
    rows, record = configured_rows.rows_of(settings), draft()
    database: Any = rows
    stranger = StoreService(configured_rows.seal_rows(database._inner, SealingKeys.ephemeral()))
    await rows.open()
    await StoreService(rows).put("acme", record)

    async def reads(engine: StoreService) -> bool:
        try:
            return (await engine.get("acme", record.id)).body == record.body
        except AntiphonError:
            return False

    start = partial(configured_rows.rows_of, settings)
    yield Holder(path, partial(reads, StoreService(rows)), partial(reads, stranger), start)
    await rows.close()


# ---- gRPC servers ----


@asynccontextmanager
async def served(security: ServerSecurity) -> AsyncIterator[str]:
    """Runs a store without handlers and yields its address."""
    backend, server = MemoryRows(SystemClock()), RpcServer(security)
    await backend.open()
    server.add(STORE, {}, ready=backend.ready)
    try:
        yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    finally:
        await server.drain(0)
        await backend.close()


async def is_served(at: str, credentials: ClientCredentials = ANONYMOUS) -> bool:
    """Returns whether a caller with these credentials is authenticated."""
    tls = _tls_of(credentials)
    async with grpc.aio.insecure_channel(at) if tls is None else grpc.aio.secure_channel(at, tls) as channel:
        return await _is_let_in(channel, credentials.token)


def _tls_of(credentials: ClientCredentials) -> grpc.ChannelCredentials | None:
    files = (credentials.tls_ca_file, credentials.tls_key_file, credentials.tls_cert_file)
    if credentials.tls_ca_file is None:
        return None
    return grpc.ssl_channel_credentials(*(path.read_bytes() if path is not None else None for path in files))


async def _is_let_in(channel: grpc.aio.Channel, token: str | None = None) -> bool:
    """Returns whether a call passes authentication, after which there is no handler."""
    call: Any = channel.unary_unary(STORE.methods["DescribeSession"].path)
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    try:
        await call(b"", metadata=metadata, timeout=WAIT_MAX_S)
    except grpc.aio.AioRpcError as error:
        return error.code() is grpc.StatusCode.UNIMPLEMENTED
    return True


@asynccontextmanager
async def _server_tokens(settings: type[RpcServerSettings], folder: Path) -> AsyncIterator[Holder]:
    path = folder / "credentials"
    path.write_text(f"edge {TOKEN} * gateway,reader\n")
    asks = settings(token_file=path, secrets_grace_s=0.0)
    async with served(ServerSecurity.of(asks)) as at:
        stranger = ClientCredentials(token=TOKEN[::-1])
        known = ClientCredentials(token=TOKEN)
        yield Holder(path, partial(is_served, at, known), partial(is_served, at, stranger), partial(_start, asks))


@dataclass(frozen=True)
class Certificates:
    """The certificates of both ends of a connection, and of a stranger."""

    ca: Certificate
    server: Certificate
    client: Certificate
    stranger: Certificate

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        ca, other = authority(folder, "ca"), authority(folder, "other")
        server, client = (signed_by(ca, folder, name) for name in ("server", "client"))
        return cls(ca, server, client, signed_by(other, folder, "stranger"))

    def shown_by(self, client: Certificate) -> ClientCredentials:
        return ClientCredentials(tls_ca_file=self.ca.cert, tls_cert_file=client.cert, tls_key_file=client.key)


@asynccontextmanager
async def _server_tls(settings: type[RpcServerSettings], name: str, folder: Path) -> AsyncIterator[Holder]:
    made = Certificates.make(folder)
    client_ca = folder / "client_ca.pem"
    client_ca.write_bytes(made.ca.cert.read_bytes())
    files: dict[str, Any] = {
        "tls_cert_file": made.server.cert,
        "tls_key_file": made.server.key,
        "tls_client_ca_file": client_ca,
    }
    asks = settings(**files, secrets_grace_s=0.0)
    known, stranger = made.shown_by(made.client), made.shown_by(made.stranger)
    async with served(ServerSecurity.of(asks)) as at:

        async def serves_stranger() -> bool:
            return await is_served(at, stranger) or await is_served(at)

        yield Holder(files[name], partial(is_served, at, known), serves_stranger, partial(_start, asks))


def _start(settings: RpcServerSettings) -> None:
    ServerSecurity.of(dataclasses.replace(settings))


# ---- The edge as a client ----


@asynccontextmanager
async def _client_token(kind: type[TurnSettings], peer: Peer, folder: Path) -> AsyncIterator[Holder]:
    path, asked = folder / "token", folder / "credentials"
    path.write_text(TOKEN)
    asked.write_text(f"edge {TOKEN} * gateway,reader\n")
    settings = kind(**{f"{peer}_token_file": path})  # type: ignore[arg-type]
    show = settings.credentials_for(peer).open_token()
    assert show is not None
    async with served(ServerSecurity(Guard(asked))) as at:

        async def serves() -> bool:
            return await is_served(at, ClientCredentials(token=show()))

        yield Holder(path, serves, partial(is_served, at), settings.credentials_for(peer).open_token)


@asynccontextmanager
async def _client_tls(kind: type[TurnSettings], peer: Peer, name: str, folder: Path) -> AsyncIterator[Holder]:
    """The holder of an open channel, whose files were read when it was made."""
    made = Certificates.make(folder)
    own_ca = folder / "own_ca.pem"
    own_ca.write_bytes(made.ca.cert.read_bytes())
    files = {"tls_ca_file": own_ca, "tls_cert_file": made.client.cert, "tls_key_file": made.client.key}
    settings = kind(**{f"{peer}_{each}": path for each, path in files.items()})  # type: ignore[arg-type]
    security = ServerSecurity.of(
        StoreSettings(tls_cert_file=made.server.cert, tls_key_file=made.server.key, tls_client_ca_file=made.ca.cert)
    )
    tls = _tls_of(settings.credentials_for(peer))
    assert tls is not None
    async with served(security) as at, grpc.aio.secure_channel(at, tls) as channel:
        serves, serves_stranger = partial(_is_let_in, channel), partial(is_served, at)
        yield Holder(files[name], serves, serves_stranger, settings.credentials_for(peer).open_ssl)


# ---- The translator as a client ----


@asynccontextmanager
async def _engine_key(folder: Path) -> AsyncIterator[Holder]:
    """A server of chat completions that checks the presented key."""
    path = folder / "key"
    path.write_text(KEY.removeprefix("Bearer "))
    async with fake_chat() as server:
        profile = ModelProfile(name=MODEL, endpoint=server.endpoint, engine="openai_chat", api_key_file=path)
        engine = OpenAIChatEngine(profile)

        async def serves(*, is_known: bool) -> bool:
            server.keys.clear()
            with suppress(AntiphonError):
                await engine.ready()
            return any(key == KEY if is_known else key != KEY for key in server.keys)

        yield Holder(path, partial(serves, is_known=True), partial(serves, is_known=False), _read_by_requests)
        await engine.close()


@asynccontextmanager
async def _session_secret(folder: Path) -> AsyncIterator[Holder]:
    """An engine that tells a fleet's router which requests belong together, by session keys that nobody can guess."""
    path = folder / "session"
    path.write_text(TOKEN)
    profile = ModelProfile(
        name=MODEL, endpoint="http://127.0.0.1:1/v1", engine="openai_chat", router="dynamo", session_secret_file=path
    )

    async def shows(secret: str) -> bool:
        try:
            return request_headers.session_secret(profile) == secret.encode()
        except AntiphonError:
            return False

    yield Holder(path, partial(shows, TOKEN), partial(shows, TOKEN[::-1]), _read_by_requests)


@asynccontextmanager
async def _search_key(folder: Path) -> AsyncIterator[Holder]:
    """The tools service as a client of a search provider."""
    path = folder / "search"
    path.write_text(TOKEN)
    settings = ToolsSettings(web_search="brave", web_search_secret_file=path)
    connections: Any = None  # no tool server searches
    search: Any = ConfiguredSearch(settings, connections)

    async def shows(key: str) -> bool:
        return bool(search._key.get() == key)

    start = partial(ConfiguredSearch, settings, connections)
    yield Holder(path, partial(shows, TOKEN), partial(shows, TOKEN[::-1]), start)


@asynccontextmanager
async def _cache_salt_keys(folder: Path) -> AsyncIterator[Holder]:
    """The salts of tenants. A stranger is a tenant that gets another one's salt."""
    path = folder / "salts"
    path.write_text(f"one {'0' * 64}\n")
    salts = CacheSalts.of(path, grace_s=0.0, setting="cache_salt_keys_file")
    known = salts.of_tenant("acme")

    async def has_salt(tenant: str) -> bool:
        try:
            return salts.of_tenant(tenant) == known
        except AntiphonError:
            return False

    start = partial(CacheSalts.of, path, grace_s=0.0, setting="cache_salt_keys_file")
    yield Holder(path, partial(has_salt, "acme"), partial(has_salt, "globex"), start)


def _read_by_requests() -> None:
    """A holder whose file is read for each request, not at the start."""


_SERVERS: Mapping[str, type[RpcServerSettings]] = {
    "store": StoreSettings,
    "translator": TranslatorSettings,
    "tools": ToolsSettings,
}
_PEERS: tuple[Peer, ...] = ("store", "translator", "tools")
_CLIENTS: Mapping[str, type[TurnSettings]] = {"edge": EdgeSettings, "worker": WorkerSettings}
_SERVER_TLS = ("tls_cert_file", "tls_key_file", "tls_client_ca_file")
_CLIENT_TLS = ("tls_ca_file", "tls_cert_file", "tls_key_file")

HOLDERS: Mapping[str, Opened] = {
    "edge.keys_file": partial(_api_keys, "keys"),
    "edge.keys_pepper_file": partial(_api_keys, "pepper"),
    **{f"{name}.sealing_keys_file": _sealing_keys for name in _CLIENTS},
    **{f"{name}.cache_salt_keys_file": _cache_salt_keys for name in _CLIENTS},
    "profile.api_key_file": _engine_key,
    "profile.session_secret_file": _session_secret,
    "tools.web_search_secret_file": _search_key,
    "store.encryption_keys_file": _encryption_keys,
    **{f"{name}.token_file": partial(_server_tokens, kind) for name, kind in _SERVERS.items()},
    **{f"{name}.{file}": partial(_server_tls, kind, file) for name, kind in _SERVERS.items() for file in _SERVER_TLS},
    **{
        f"{name}.{peer}_token_file": partial(_client_token, kind, peer)
        for name, kind in _CLIENTS.items()
        for peer in _PEERS
    },
    **{
        f"{name}.{peer}_{file}": partial(_client_tls, kind, peer, file)
        for name, kind in _CLIENTS.items()
        for peer in _PEERS
        for file in _CLIENT_TLS
    },
}
"""The holders by the names of the settings. A model profile counts as a section."""

KEEP = frozenset(
    [f"{name}.{peer}_{file}" for name in _CLIENTS for peer in _PEERS for file in ("token_file", *_CLIENT_TLS)]
    + [f"{name}.{file}" for name in _SERVERS for file in _SERVER_TLS[:2]]
    + ["tools.web_search_secret_file"]
)
"""Settings whose files do not authenticate callers. Their last content stays in use until a usable file exists."""
