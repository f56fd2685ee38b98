"""Protection against requests that web pages make for their visitors. Reading answers is the matter of CORS (cors.py).

A browser sends what any page tells it to, also to a server that only its own machine reaches. It keeps the answer from
the page, but a turn has run by then. And a page whose own name becomes an address of this machine (DNS rebinding) is of
the same origin to the browser, and reads the answers, too: every stored conversation. Where requests show keys this is
nothing, since a page has none. Where nobody is asked who they are, this module asks where they come from.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

from aiohttp import hdrs, web

from antiphon_edge.http.cors import ANY_ORIGIN
from antiphon_edge.http.http_errors import Handler, refuse

SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
"""Methods that change nothing; other pages cannot read their answers."""
PRIVATE_SUFFIXES = (".localhost", ".local", ".internal")
"""Names below these are not in the public DNS (RFC 6761, RFC 6762, ICANN's .internal): no stranger has one."""


def is_foreign(request: web.Request, origins: Collection[str]) -> bool:
    """Whether a page of another host than this one sent it, and none of the origins that were named."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None or ANY_ORIGIN in origins or origin in origins:
        return False
    return origin.partition("://")[2] != request.host


def is_anyones(host: str) -> bool:
    """Whether a stranger can have a name like that of a `Host` header: a full one in the public DNS."""
    name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
    name = name.rstrip(".").lower()
    return "." in name and not name.endswith(PRIVATE_SUFFIXES) and not _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def refuse_foreign() -> web.Response:
    """The answer to a page of another host."""
    message = "Web pages of other hosts may not ask this server; edge.cors_origins can name them."
    return refuse(403, "origin_refused", message)


def middleware(origins: Collection[str], *, is_local: bool) -> Handler:
    """For a server that asks nobody who they are. `is_local`: it listens on loopback, where nobody needs a public name
    to reach it."""

    @web.middleware
    async def ask_where_from(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get(hdrs.HOST, "")
        if is_local and is_anyones(host):
            return refuse(
                403,
                "host_refused",
                "This server asks nobody for a key, so it answers under names of this machine only, not under that of "
                "the 'Host' header. Behind a proxy: set edge.keys_file, edge.trusted_proxies or edge.insecure.",
            )
        if request.method not in SAFE_METHODS and is_foreign(request, origins):
            return refuse_foreign()
        return await handler(request)

    return ask_where_from  # type: ignore[return-value]
