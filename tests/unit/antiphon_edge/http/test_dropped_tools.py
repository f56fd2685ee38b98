from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from antiphon_edge.http import dropped_tools


@pytest.mark.parametrize(("dropped", "header"), [(["mcp", "web_search"], "mcp, web_search"), ([], None), (None, None)])
async def test_header_names_the_dropped_tools(dropped: list[str] | None, header: str | None) -> None:
    request, answer = make_mocked_request("POST", "/"), web.StreamResponse()
    if dropped is not None:
        dropped_tools.note(request, dropped)
    await dropped_tools.add_header(request, answer)
    assert answer.headers.get(dropped_tools.HEADER) == header
