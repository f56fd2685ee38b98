"""Names of callers, under which a server counts their calls and bytes (intake.py)."""

from __future__ import annotations

from antiphon_core.errors import Unavailable
from antiphon_core.rpc.authentication import caller_metadata
from antiphon_core.rpc.security import ServerSecurity
from antiphon_http2.limits import CALLER_CONNECTIONS_ITEMS_MAX
from antiphon_http2.server.call import ServerCall


def identify(call: ServerCall, security: ServerSecurity) -> str:
    """Authenticates a caller and returns its name, whatever its tenants and roles. Unauthenticated, Unavailable."""
    security.require_usable()
    if security.guard is None:
        call.authenticate()
        return host_of(call.peer)
    caller = name_of(security.guard.identify(caller_metadata(call.metadata), call.certificate).name)
    note(call, caller)
    return caller


def note(call: ServerCall, caller: str) -> None:
    """Notes the caller of a call. Unavailable: the caller has too many connections."""
    if not call.authenticate(caller):
        raise Unavailable(
            f"The {caller} has {CALLER_CONNECTIONS_ITEMS_MAX} connections to this process, the most that one may have."
        )


def name_of(credential: str) -> str:
    """The name of a caller with the credential of this name."""
    return f"credential {credential}"


def host_of(peer: str) -> str:
    """The address of a peer without its port, so that all connections of a host are one caller."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer
