"""Requests that a proxy in front of the edge could read differently: they are refused, or end their connection.

Where two read the same bytes as different requests, a caller can hide one behind another (request smuggling): past the
proxy that says whose requests they are, or into the request of whoever is next on a connection that callers share.
aiohttp's parser refuses most of it, such as two lengths, or a length beside chunks. Here is what it lets pass:

- A head that is not plain is refused: a proxy that reads it in another way than we do need not even be wrong.
- behind some plain requests the parser does not find the next one as a proxy would. They are answered, as the last ones
  of their connections.
"""

from __future__ import annotations

import re

from aiohttp import HttpVersion11, hdrs
from aiohttp.http import RawRequestMessage

_HOST = re.compile(r"([A-Za-z0-9._~-]*|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._~%-]+)?\])(:[0-9]*)?")
_SCHEMES = ("http", "https")


def ambiguity_of(message: RawRequestMessage) -> str | None:
    """The reason why the head of a request can be read in two ways, in words that repeat nothing of it; None if it
    cannot."""
    if message.method == hdrs.METH_CONNECT:
        return "CONNECT is asked of proxies, and this server is none."
    if not _has_plain_framing(message):
        return "The only 'Transfer-Encoding' that a body can have here is 'chunked', and that in HTTP/1.1."
    if "#" in message.path:
        return "The URL of a request has no fragment: '#' in it is written as '%23'."
    host = message.headers.get(hdrs.HOST, "")
    if not _HOST.fullmatch(host):
        return "The header 'Host' is not a name or an address, with or without a port."
    if not _is_addressed_to(host, message):
        return "The URL of the request names another host than the header 'Host'."
    return None


def is_last(message: RawRequestMessage) -> bool:
    """Whether what comes behind this request on its connection cannot be told from it.

    The last trailer behind a body in chunks becomes a header of the next request. And of what comes in one piece with a
    request for another protocol the parser drops the rest, unless the protocol is one that it knows."""
    return bool(message.chunked or message.upgrade)


def _has_plain_framing(message: RawRequestMessage) -> bool:
    codings = message.headers.getall(hdrs.TRANSFER_ENCODING, [])
    return not codings or (message.version >= HttpVersion11 and [each.lower() for each in codings] == ["chunked"])


def _is_addressed_to(host: str, message: RawRequestMessage) -> bool:
    """Whether the URL names the host of the header, if it names any."""
    if message.path.startswith("/") or message.path == "*":
        return True
    return message.url.scheme in _SCHEMES and message.url.raw_authority.lower() == host.lower()
