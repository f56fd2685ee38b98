"""Authentication of HTTP requests: finds the tenant of each. Nothing behind this module asks again (tenancy.py).

There are two ways to be known. An API key, as `Authorization: Bearer ak_...`, speaks for the one tenant that it was
made for. A proxy that authenticates by itself says the tenant as `x-tenant-id`; it is believed when its address is in a
trusted network. From other addresses that header is rejected rather than ignored: its sender believes that it decides
something, and would otherwise read and write another tenant's conversations without a word.

Where neither way is set up (on loopback, or `insecure`), all requests are the default tenant's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Self

from aiohttp import web

from antiphon_core.clock import Clock
from antiphon_core.errors import InvalidApiKey, InvalidRequest
from antiphon_core.ids import is_reserved_tenant, is_tenant
from antiphon_edge.access_settings import AccessSettings, Network
from antiphon_edge.callers.api_keys import KeyGuard
from antiphon_edge.callers.tenancy import set_caller, set_tenant, tenant_of
from antiphon_edge.http.http_errors import Handler

log = logging.getLogger(__name__)

TENANT_HEADER = "x-tenant-id"
OPEN_PATHS = frozenset({"/v1/health/live", "/v1/health/ready", "/v1/version", "/openapi.json", "/docs"})
"""Probes carry no keys; neither do those who read what a server can do."""
_OPENED: web.AppKey[AbstractSet[str]] = web.AppKey("opened paths")

_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Admits bearers of keys, and the tenants that trusted proxies name. Without either it admits everybody."""

    keys: KeyGuard | None = None
    trusted_proxies: Sequence[Network] = ()

    @classmethod
    def of(cls, settings: AccessSettings, clock: Clock) -> Self:
        """Reads the files. SettingsError: one of them will not do."""
        if settings.keys_file is None or settings.keys_pepper_file is None:
            return cls(None, settings.networks())
        files = settings.keys_file, settings.keys_pepper_file
        return cls(KeyGuard(*files, clock=clock, grace_s=settings.secrets_grace_s), settings.networks())

    def tenant_of(self, request: web.Request) -> str | None:
        """The tenant that a request may speak for; None for the default one, where nobody is asked.

        InvalidApiKey: the caller is not known. InvalidRequest: it says a tenant, and may not."""
        said = request.headers.getall(TENANT_HEADER, [])
        if said:
            tenant = self._said_tenant(request, said)
            set_caller(request, f"proxy {request.remote}")
            return tenant
        if self.keys is None and not self.trusted_proxies:
            set_caller(request, f"address {request.remote}")
            return None
        if self.keys is None:
            raise InvalidApiKey("This server is asked through its proxy, which says whose requests they are.")
        key = self.keys.identify(_bearer(request))
        set_caller(request, f"key {key.id}")
        return key.tenant

    def _said_tenant(self, request: web.Request, said: Sequence[str]) -> str:
        if not self.trusts(request.remote):
            raise InvalidRequest(
                f"The header '{TENANT_HEADER}' is believed from trusted proxies only, and this request did not come "
                "from one. Leave it out: the API key says whose request it is.",
                field=TENANT_HEADER,
                code="tenant_not_accepted",
            )
        if len(said) > 1 or not is_tenant(said[0]) or is_reserved_tenant(said[0]):
            raise InvalidRequest(
                f"The header '{TENANT_HEADER}' must be there once, with 1 to 128 printable ASCII characters that do "
                "not begin with 'antiphon.'.",
                field=TENANT_HEADER,
                code="invalid_value",
            )
        return said[0]

    def trusts(self, peer: str | None) -> bool:
        """Whether this address is that of a proxy which says whose requests it brings."""
        if not peer or not self.trusted_proxies:
            return False
        address = ip_address(peer.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped  # what a socket for both families makes of an IPv4 peer
        return any(address in network for network in self.trusted_proxies)


_AUTHENTICATOR: web.RequestKey[Authenticator] = web.RequestKey("authenticator", Authenticator)


def open_paths(app: web.Application, *paths: str) -> None:
    """Opens more paths of this application to callers without a key. `paths` are canonical paths of routes."""
    app[_OPENED] = app.get(_OPENED, frozenset()) | set(paths)


def is_open(request: web.Request) -> bool:
    """Whether nobody is asked: by the route that will serve the request, not by how its path is written."""
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical in OPEN_PATHS | request.app.get(_OPENED, frozenset())


def middleware(authenticator: Authenticator) -> Handler:
    """Sets the tenant of each request, and answers for those that are not let in."""

    @web.middleware
    async def authenticate(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_open(request):
            try:
                tenant = authenticator.tenant_of(request)
            except (InvalidApiKey, InvalidRequest) as error:
                path = request.rel_url.raw_path  # as it came: decoded, it could hold a line of its own
                log.info("%s %s from %s is refused: %s", request.method, path, request.remote, error.message)
                raise
            if tenant is not None:
                set_tenant(request, tenant)
            # No callable of the request: a cycle would leave the request to the garbage collector.
            request[_AUTHENTICATOR] = authenticator
        return await handler(request)

    return authenticate  # type: ignore[return-value]


def check_again(request: web.Request) -> None:
    """Looks at the credential of a request once more, for what outlives the request's beginning. InvalidApiKey: it was
    revoked, has expired or speaks for another tenant by now."""
    tenant = request[_AUTHENTICATOR].tenant_of(request)
    if tenant is not None and tenant != tenant_of(request):
        raise InvalidApiKey("The API key of this connection speaks for another tenant now. Connect again.")


def _bearer(request: web.Request) -> str:
    """The key that a request shows. Two of them are none: parties on the way might each have read another one."""
    given = request.headers.getall("Authorization", [])
    scheme, _, key = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not key.strip():
        raise InvalidApiKey(_NO_KEY)
    return key.strip()
