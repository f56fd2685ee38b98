"""A store in memory behind gRPC that requires tokens, and its callers: an attacker, and a victim of another tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon_core.clock import SystemClock
from antiphon_core.errors import Unavailable
from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ClientCredentials
from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import OPTIONS, RpcServer
from antiphon_http2.server.options import ServerOptions
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.server import handlers
from antiphon_store.service import StoreService

ATTACKER, VICTIM = "attacker-0123456789", "victim-0123456789ab"
"""Their tokens, for the tenants acme and globex."""


@dataclass(frozen=True)
class GuardedStore:
    port: int
    server: RpcServer
    attacker: RpcClient
    victim: RpcClient


@asynccontextmanager
async def guarded_store(
    path: Path, limits: IntakeLimits, *, role: str, options: ServerOptions = OPTIONS
) -> AsyncIterator[GuardedStore]:
    """Runs the store with both callers in the role. `path` is the file of credentials that it writes."""
    _write_credentials(path, role)
    backend, server = MemoryRows(SystemClock()), RpcServer(ServerSecurity(Guard(path)), limits=limits, options=options)
    await backend.open()
    store = StoreService(backend)
    server.add(STORE, handlers(store), ready=store.ready)
    port = await server.start("127.0.0.1", 0)
    attacker, victim = (
        RpcClient(f"127.0.0.1:{port}", STORE, unavailable=Unavailable, credentials=ClientCredentials(token=token))
        for token in (ATTACKER, VICTIM)
    )
    yield GuardedStore(port, server, attacker, victim)
    await attacker.close()
    await victim.close()
    await server.drain(0)


def _write_credentials(path: Path, role: str) -> None:
    path.write_text(f"attacker {ATTACKER} acme {role}\nvictim {VICTIM} globex {role}\n")
    path.chmod(0o600)
