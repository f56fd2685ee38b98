"""`Idempotency-Key`: the header by which a client says that a request is one it sent before."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import DerivedIds, Ids
from antiphon_core.limits import IDEMPOTENCY_KEY_BYTES_MAX

HEADER = "Idempotency-Key"


def key_of(request: web.Request) -> str | None:
    """The key that a request brings. InvalidRequest: it is empty, too long or no UTF-8, or there are two."""
    given = request.headers.getall(HEADER, [])
    if not given:
        return None
    if len(given) == 1 and 1 <= _utf8_length(given[0]) <= IDEMPOTENCY_KEY_BYTES_MAX:
        return given[0]
    raise InvalidRequest(
        f"'{HEADER}' must be there once, with 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes of UTF-8.",
        field=HEADER,
        code="invalid_value",
    )


def ids_under(key: str | None, ids: Ids, *scope: str) -> Ids:
    """Where the ids of what a request makes come from. Under a key they follow from it and its scope, so that the same
    request again names the same things. They can be worked out, which tells nobody anything: ids open nothing outside
    their tenant, and the tenant belongs in the scope."""
    return ids if key is None else DerivedIds("\n".join((*scope, key)))


def _utf8_length(key: str) -> int:
    """Bytes that the key takes; 0 when the header was no UTF-8: such bytes come as lone surrogates."""
    try:
        return len(key.encode())
    except UnicodeEncodeError:
        return 0
