"""The tenant of a request, and its caller's name in the audit log. Authentication sets them; handlers read them."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.rpc.call_metadata import DEFAULT_TENANT

_TENANT: web.RequestKey[str] = web.RequestKey("tenant", str)
_CALLER: web.RequestKey[str] = web.RequestKey("caller", str)


def set_tenant(request: web.Request, tenant: str) -> None:
    request[_TENANT] = tenant


def tenant_of(request: web.Request) -> str:
    """The tenant of a request; the default tenant without authentication."""
    tenant: str = request.get(_TENANT, DEFAULT_TENANT)
    return tenant


def set_caller(request: web.Request, name: str) -> None:
    request[_CALLER] = name


def caller_of(request: web.Request) -> str:
    """The caller for the audit log: the id of its key, or its address; empty if authentication failed."""
    name: str = request.get(_CALLER, "")
    return name
