"""Routes by the table of operations: the handler that serves each, and the operation that a request asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aiohttp import hdrs, web

from antiphon_edge.operations.table import OPERATIONS, PAGES, Operation

_Handler = TypeVar("_Handler", bound=Callable[..., object])

_ALL = (*OPERATIONS, *PAGES)
_BY_ROUTE = {(operation.method, operation.path): operation for operation in _ALL}


def serves(name: str) -> Callable[[_Handler], _Handler]:
    """Marks a method as the handler of the operation with this name."""

    def mark(handler: _Handler) -> _Handler:
        handler.__dict__["operation"] = name
        return handler

    return mark


def routes_of(*owners: object) -> list[web.RouteDef]:
    """The routes of all operations that methods of the owners serve, in the order of the table."""
    handlers = {
        method.operation: getattr(owner, attribute)
        for owner in owners
        for attribute, method in vars(type(owner)).items()
        if hasattr(method, "operation")
    }
    unknown = handlers.keys() - {operation.name for operation in _ALL}
    if unknown:
        raise ValueError(f"The table of operations has no {', '.join(sorted(unknown))}.")
    return [_route(each, handlers[each.name]) for each in _ALL if each.name in handlers]


def _route(operation: Operation, handler: Callable[..., object]) -> web.RouteDef:
    allowed = {"allow_head": operation.allows_head} if operation.method == hdrs.METH_GET else {}
    return web.RouteDef(operation.method, operation.pattern or operation.path, handler, allowed)  # type: ignore[arg-type]


def operation_of(request: web.Request) -> Operation | None:
    """The operation that a request asks for; None if there is no such route. Its path can be written in several ways,
    which the router has resolved."""
    resource = request.match_info.route.resource
    if resource is None:
        return None
    method = hdrs.METH_GET if request.method == hdrs.METH_HEAD else request.method
    return _BY_ROUTE.get((method, resource.canonical))
