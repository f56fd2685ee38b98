"""Protection against request smuggling: requests that a proxy in front of the edge could parse in another way.

If a proxy and the edge see different requests in the same bytes, a caller can hide a request in the body of another: it
evades the proxy that names the tenant, or becomes part of another caller's request on a shared connection. aiohttp's
parser rejects most such requests, for example those with two lengths, or with a length beside chunks. This module
treats those that aiohttp accepts:

- A request whose head can be parsed in two ways is rejected (`ambiguity_of`).
- After some valid requests the parser does not find the beginning of the next one as a proxy would. They are answered,
  and their connection is closed (`is_last`).
"""

from __future__ import annotations

import re

from aiohttp import HttpVersion10, HttpVersion11, hdrs
from aiohttp.http import RawRequestMessage

_HOST = re.compile(r"([A-Za-z0-9._~-]*|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._~%-]+)?\])(:[0-9]*)?")
_SCHEMES = ("http", "https")
_VERSIONS = (HttpVersion10, HttpVersion11)


def ambiguity_of(message: RawRequestMessage) -> str | None:
    """Why the head of a request can be parsed in two ways, as a message that quotes nothing of the request; None if it
    cannot."""
    if message.version not in _VERSIONS:  # aiohttp answers HTTP/0.9, which has no heads, and 2.0 with heads of 1.1
        return "The request line names neither HTTP/1.1 nor HTTP/1.0."
    if message.method == hdrs.METH_CONNECT:
        return "CONNECT is a method for proxies, and this server is no proxy."
    if hdrs.TRANSFER_ENCODING in message.headers and not _has_plain_framing(message):
        return "The only 'Transfer-Encoding' that is accepted is 'chunked', and only in HTTP/1.1."
    if "#" in message.path:
        return "The URL of a request has no fragment. Write '#' in a path or query as '%23'."
    host = message.headers.get(hdrs.HOST, "")
    if not _HOST.fullmatch(host):
        return "The header 'Host' is not a name or an address, with or without a port."
    if not message.path.startswith("/") and not _is_addressed_to(host, message):
        return "The URL of the request names another host than the header 'Host'."
    return None


def is_last(message: RawRequestMessage) -> bool:
    """Whether no further request can be parsed safely on the connection of this one.

    aiohttp's parser makes the last trailer after a chunked body a header of the next request. After a request with
    `Upgrade` to a protocol that it does not know, it drops the rest of the bytes that were read with the request."""
    return bool(message.chunked or message.upgrade)


def _has_plain_framing(message: RawRequestMessage) -> bool:
    codings = message.headers.getall(hdrs.TRANSFER_ENCODING)
    return message.version >= HttpVersion11 and [each.lower() for each in codings] == ["chunked"]


def _is_addressed_to(host: str, message: RawRequestMessage) -> bool:
    """Whether a URL that is no path names no host, or the host of the header `Host`."""
    if message.path == "*":
        return True
    return message.url.scheme in _SCHEMES and message.url.raw_authority.lower() == host.lower()
