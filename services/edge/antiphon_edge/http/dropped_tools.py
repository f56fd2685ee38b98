"""The header of an answer to a request of which hosted tools were left out: their types, as in `dropped_tools`."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

HEADER = "x-antiphon-dropped-tools"
_DROPPED: web.RequestKey[Sequence[str]] = web.RequestKey("dropped_tools", Sequence)


def note(request: web.Request, dropped: Sequence[str] | None) -> None:
    """Notes what was left out of a request, before its answer begins."""
    request[_DROPPED] = dropped or ()


async def add_header(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`."""
    if dropped := request.get(_DROPPED):
        response.headers[HEADER] = ", ".join(dropped)
