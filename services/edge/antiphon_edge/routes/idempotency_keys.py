"""`Idempotency-Key`: the header by which a retry of a request is recognised."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import DerivedIds, Ids
from antiphon_core.limits import IDEMPOTENCY_KEY_BYTES_MAX
from antiphon_edge.operations.parameters import IDEMPOTENCY_KEY


def key_of(request: web.Request) -> str | None:
    """The idempotency key of a request. InvalidRequest: it is empty, too long or not UTF-8, or there are two."""
    given = request.headers.getall(IDEMPOTENCY_KEY.name, [])
    if not given:
        return None
    if len(given) == 1 and 1 <= _utf8_length(given[0]) <= IDEMPOTENCY_KEY_BYTES_MAX:
        return given[0]
    raise InvalidRequest(
        f"'{IDEMPOTENCY_KEY.name}' must appear once, with 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes of UTF-8.",
        field=IDEMPOTENCY_KEY.name,
        code="invalid_value",
    )


def ids_under(key: str | None, ids: Ids, *scope: str) -> Ids:
    """The generator of ids for the objects that a request creates. With a key the ids are derived from key and `scope`,
    so that a retry makes the same ids. The scope must contain the tenant. Derived ids can be guessed, which is no risk:
    an id gives no access to another tenant."""
    return ids if key is None else DerivedIds("\n".join((*scope, key)))


def _utf8_length(key: str) -> int:
    """The size of the key in bytes; 0 if the header is not UTF-8: aiohttp decodes such bytes to lone surrogates."""
    try:
        return len(key.encode())
    except UnicodeEncodeError:
        return 0
