"""Protection against cross-site requests (CSRF) and DNS rebinding, for servers without authentication.

A browser sends requests for any page that it shows, even to a server on loopback. Without CORS headers (cors.py) the
page cannot read the answer, but by then the turn has run. With DNS rebinding, the page's own host name resolves to an
address of this machine. To the browser both then have the same origin, and the page can read every stored conversation.
Servers with authentication are safe, since such a page has no API key. Without it, this module checks `Origin` and
`Host`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address

from aiohttp import hdrs, web

from antiphon_edge.http.cors import ANY_ORIGIN
from antiphon_edge.http.http_errors import rejection

SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
"""Methods that change nothing. Pages of other origins cannot read their answers."""
PRIVATE_SUFFIXES = (".localhost", ".local", ".internal")
"""Domains that are not in the public DNS (RFC 6761, RFC 6762, ICANN's .internal): no attacker can own a name there.

A name without a dot is none of them: the resolver adds its search domains, in which others may register names."""


def is_foreign(request: web.Request, origins: Collection[str]) -> bool:
    """Whether a page of another host sent the request, and its origin is not among `origins`."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None or ANY_ORIGIN in origins or origin in origins:
        return False
    return origin.partition("://")[2] != request.host


@lru_cache(maxsize=64)  # clients name few hosts; the parse of an address takes as long as all other checks of a page
def is_foreign_name(host: str) -> bool:
    """Whether the host of a `Host` header is a name that somebody else can register in the DNS."""
    name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
    name = name.rstrip(".").lower()
    return name not in ("", "localhost") and not name.endswith(PRIVATE_SUFFIXES) and not _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def reject_foreign() -> web.Response:
    """The answer to a page of another host."""
    message = "Web pages of other hosts may not call this server, unless edge.cors_origins lists their origin."
    return rejection(403, "origin_refused", message)


def rejection_of(request: web.Request, origins: Collection[str], *, is_local: bool) -> web.Response | None:
    """The answer to a cross-site request to a server without authentication; None for all other requests. `is_local`:
    the server listens on loopback, so no legitimate client reaches it under the name of another machine."""
    if is_local and is_foreign_name(request.headers.get(hdrs.HOST, "")):
        return rejection(
            403,
            "host_refused",
            "This server requires no API key, so it answers only if the 'Host' header is an address, localhost, or "
            "a name in .localhost, .local or .internal. Behind a proxy, set edge.keys_file, edge.trusted_proxies "
            "or edge.insecure.",
        )
    if request.method not in SAFE_METHODS and is_foreign(request, origins):
        return reject_foreign()
    return None
