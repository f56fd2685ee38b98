"""`x-antiphon-dropped-tools`: the header that lists the types of hosted tools that were left out of a request, as
`dropped_tools` in the response does."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

HEADER = "x-antiphon-dropped-tools"
_DROPPED: web.RequestKey[Sequence[str]] = web.RequestKey("dropped_tools", Sequence)


def note(request: web.Request, dropped: Sequence[str]) -> None:
    """Notes the types that were left out of a request. Call it before the answer begins."""
    request[_DROPPED] = dropped


async def add_header(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: adds the header if tools were left out."""
    if dropped := request.get(_DROPPED):
        response.headers[HEADER] = ", ".join(dropped)
