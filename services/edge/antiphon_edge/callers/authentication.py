"""Authentication of HTTP requests: finds the tenant of each, and the name of its caller in the audit log.

There are two methods. An API key, sent as `Authorization: Bearer ak_...`, belongs to one tenant. A proxy that
authenticates clients by itself names the tenant in `x-tenant-id`, and must have an address in a trusted network. From
other addresses the header is rejected, not ignored: a client that sends it expects to act for that tenant, and would
otherwise use the data of another one without noticing.

Without either method (on loopback, or with `insecure`) all requests belong to the default tenant.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Self

from aiohttp import web

from antiphon_core.clock import Clock
from antiphon_core.errors import InvalidApiKey, InvalidRequest
from antiphon_core.ids import is_reserved_tenant, is_tenant
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_edge.access_settings import AccessSettings, Network
from antiphon_edge.callers.api_keys import KeyGuard

log = logging.getLogger(__name__)

TENANT_HEADER = "x-tenant-id"
TENANT: web.RequestKey[str] = web.RequestKey("tenant", str)
CALLER: web.RequestKey[str] = web.RequestKey("caller", str)
"""The caller for the audit log: the id of its key, or its address."""

_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authenticates requests by API keys and trusted proxies. With neither it accepts every request."""

    keys: KeyGuard | None = None
    trusted_proxies: Sequence[Network] = ()

    @classmethod
    def of(cls, settings: AccessSettings, clock: Clock) -> Self:
        """Reads the key files of the settings. SettingsError: a file cannot be used."""
        if settings.keys_file is None or settings.keys_pepper_file is None:
            return cls(None, settings.networks())
        files = settings.keys_file, settings.keys_pepper_file
        return cls(KeyGuard(*files, clock=clock, grace_s=settings.secrets_grace_s), settings.networks())

    def tenant_of(self, request: web.Request) -> str | None:
        """The tenant of a request; None for the default one, without authentication. Notes the caller.

        InvalidApiKey: the caller has no valid key. InvalidRequest: `x-tenant-id` is invalid, or not from a trusted
        proxy."""
        given = request.headers.getall(TENANT_HEADER, [])
        if given:
            tenant = self._tenant_of_proxy(request, given)
            request[CALLER] = f"proxy {request.remote}"
            return tenant
        if self.keys is None and not self.trusted_proxies:
            request[CALLER] = f"address {request.remote}"
            return None
        if self.keys is None:
            raise InvalidApiKey("This server accepts requests only through its proxy, which authenticates them.")
        key = self.keys.identify(_bearer(request))
        request[CALLER] = f"key {key.id}"
        return key.tenant

    def _tenant_of_proxy(self, request: web.Request, given: Sequence[str]) -> str:
        if not self.trusts(request.remote):
            raise InvalidRequest(
                f"The header '{TENANT_HEADER}' is accepted from trusted proxies only, and this request did not come "
                "from one. Leave it out: the API key identifies the tenant.",
                field=TENANT_HEADER,
                code="tenant_not_accepted",
            )
        if len(given) > 1 or not is_tenant(given[0]) or is_reserved_tenant(given[0]):
            raise InvalidRequest(
                f"The header '{TENANT_HEADER}' must appear once, with 1 to 128 printable ASCII characters that do "
                "not begin with 'antiphon.'.",
                field=TENANT_HEADER,
                code="invalid_value",
            )
        return given[0]

    def trusts(self, peer: str | None) -> bool:
        """Whether `peer` is the address of a trusted proxy."""
        if not peer or not self.trusted_proxies:
            return False
        address = ip_address(peer.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped  # a dual-stack socket reports IPv4 peers in this form
        return any(address in network for network in self.trusted_proxies)


def tenant_of(request: web.Request) -> str:
    """The tenant of a request; the default tenant without authentication."""
    tenant: str = request.get(TENANT, DEFAULT_TENANT)
    return tenant


_AUTHENTICATOR: web.RequestKey[Authenticator] = web.RequestKey("authenticator", Authenticator)


def authenticate(request: web.Request, authenticator: Authenticator) -> None:
    """Sets the tenant of a request. InvalidApiKey, InvalidRequest: the request is not authenticated."""
    try:
        tenant = authenticator.tenant_of(request)
    except (InvalidApiKey, InvalidRequest) as error:
        path = request.rel_url.raw_path  # not decoded: a decoded path could forge a log line
        log.info("%s %s from %s is rejected: %s", request.method, path, request.remote, error.message)
        raise
    if tenant is not None:
        request[TENANT] = tenant
    # No callable that holds the request: a reference cycle would keep it until the garbage collector runs.
    request[_AUTHENTICATOR] = authenticator


def check_again(request: web.Request) -> None:
    """Authenticates a request once more, for each turn over its WebSocket, and while it reads a stream. InvalidApiKey:
    the key was revoked, has expired, or belongs to another tenant now."""
    tenant = request[_AUTHENTICATOR].tenant_of(request)
    if tenant is not None and tenant != tenant_of(request):
        raise InvalidApiKey("The API key of this connection belongs to another tenant now. Connect again.")


def _bearer(request: web.Request) -> str:
    """The API key of a request. Two `Authorization` headers are rejected: a proxy may have checked the other one."""
    given = request.headers.getall("Authorization", [])
    scheme, _, key = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not key.strip():
        raise InvalidApiKey(_NO_KEY)
    return key.strip()
