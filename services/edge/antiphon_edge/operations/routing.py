"""Routes by the table of operations: the handler that serves each, and the operation of a handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aiohttp import hdrs, web

from antiphon_edge.operations.table import OPERATIONS, PAGES, Operation

_Handler = TypeVar("_Handler", bound=Callable[..., object])

_BY_NAME = {operation.name: operation for operation in (*OPERATIONS, *PAGES)}


def serves(name: str) -> Callable[[_Handler], _Handler]:
    """Marks a method as the handler of an operation: its attribute `operation`. KeyError: there is no operation of this
    name."""
    operation = _BY_NAME[name]

    def mark(handler: _Handler) -> _Handler:
        handler.__dict__["operation"] = operation
        return handler

    return mark


def routes_of(*owners: object) -> list[web.RouteDef]:
    """The routes of all operations that methods of the owners serve, in the order of the table."""
    handlers = {
        method.operation.name: getattr(owner, attribute)
        for owner in owners
        for attribute, method in vars(type(owner)).items()
        if hasattr(method, "operation")
    }
    return [_route(each, handlers[each.name]) for each in _BY_NAME.values() if each.name in handlers]


def _route(operation: Operation, handler: Callable[..., object]) -> web.RouteDef:
    allowed = {"allow_head": operation.allows_head} if operation.method == hdrs.METH_GET else {}
    return web.RouteDef(operation.method, operation.pattern or operation.path, handler, allowed)  # type: ignore[arg-type]
