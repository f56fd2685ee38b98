"""The tenant of a request. Authentication sets it once; everything behind reads `tenant_of`."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.rpc.call_metadata import DEFAULT_TENANT

_TENANT: web.RequestKey[str] = web.RequestKey("tenant", str)


def set_tenant(request: web.Request, tenant: str) -> None:
    request[_TENANT] = tenant


def tenant_of(request: web.Request) -> str:
    """The tenant that a request speaks for; without authentication all are the same one."""
    tenant: str = request.get(_TENANT, DEFAULT_TENANT)
    return tenant
