"""The headers with credentials that a tool server is sent. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.tools import Credentials

HEADERS_ITEMS_MAX = 32
HEADERS_BYTES_MAX = 16 * 2**10

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]*")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_OURS = frozenset(
    """
    accept accept-encoding connection content-encoding content-length content-type expect host keep-alive
    mcp-method mcp-name mcp-protocol-version mcp-session-id proxy-authorization proxy-connection te trailer traceparent
    tracestate transfer-encoding upgrade user-agent
    """.split()
)
"""Headers that frame the request or belong to the protocol: a request that could set them could forge another."""


def credential_headers(credentials: Credentials) -> Mapping[str, str]:
    """The headers of these credentials. InvalidRequest: one is malformed, or may not be set; the message does not quote
    its value."""
    headers: dict[str, str] = {}
    if len(credentials.headers) > HEADERS_ITEMS_MAX or _size(credentials) > HEADERS_BYTES_MAX:
        raise _invalid("headers", f"can have at most {HEADERS_ITEMS_MAX} headers of {HEADERS_BYTES_MAX} bytes together")
    for name, value in credentials.headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _invalid("headers", "has a header that HTTP does not allow")
        if name.lower() in _OURS or name.lower().startswith("mcp-param-"):
            raise _invalid("headers", f"must not set the header '{name}'")
        headers[name.lower()] = value
    if credentials.authorization:
        if "authorization" in headers:
            raise _invalid("authorization", "must not be set together with the header 'Authorization'")
        if not _TOKEN.fullmatch(credentials.authorization):
            raise _invalid("authorization", "must be a token: printable ASCII characters without spaces")
        headers["authorization"] = f"Bearer {credentials.authorization}"
    return headers


def _size(credentials: Credentials) -> int:
    pairs = sum(len(name) + len(value) for name, value in credentials.headers)
    return pairs + len(credentials.authorization)


def _invalid(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"'{field}' {why}.", field=field, code="invalid_value")
