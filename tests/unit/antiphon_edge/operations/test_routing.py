from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from antiphon_edge.operations.routing import routes_of, serves


class Handlers:
    @serves("listModels")
    async def models(self, _request: web.Request) -> web.Response:
        return web.Response(text="models")

    @serves("getModel")
    async def model(self, request: web.Request) -> web.Response:
        return web.Response(text=request.match_info["id"])

    @serves("createResponse")
    async def create(self, _request: web.Request) -> web.Response:
        return web.Response()


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/v1/models", "listModels"),
        ("HEAD", "/v1/models", "listModels"),
        ("GET", "/v1/models/org/name", "getModel"),
        ("POST", "/v1/responses", "createResponse"),
        ("POST", "/v1/%72esponses", "createResponse"),
        ("PUT", "/v1/models", None),
        ("GET", "/v1/nothing", None),
    ],
)
async def test_the_handler_of_a_request_tells_its_operation(method: str, path: str, name: str | None) -> None:
    app = web.Application()
    app.add_routes(routes_of(Handlers()))
    request = make_mocked_request(method, path, app=app)
    request._match_info = await app.router.resolve(request)
    operation = getattr(request.match_info.handler, "operation", None)
    assert (operation and operation.name) == name


def test_a_handler_of_an_unknown_operation_is_an_error() -> None:
    with pytest.raises(KeyError, match="listNothing"):
        serves("listNothing")
