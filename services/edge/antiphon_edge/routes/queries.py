"""Query parameters, parsed and validated. Each function raises InvalidRequest with the name of the parameter."""

from __future__ import annotations

import re
from typing import get_args

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from antiphon_core.limits import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX
from antiphon_core.ports.store import Order
from antiphon_core.request.body import Include

INCLUDABLE = get_args(Include)
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,100}")  # int() accepts more forms, such as 1_000
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def limit(request: web.Request, *, default: int = PAGE_ITEMS_DEFAULT, most: int = PAGE_ITEMS_MAX) -> int:
    """The maximum number of entries on a page."""
    return number(request, "limit", least=1, most=most) or default


def order(request: web.Request) -> Order:
    given = request.query.get("order", Order.DESCENDING.value)
    if given not in list(Order):
        raise InvalidRequest("'order' must be one of 'asc' or 'desc'.", field="order", code="invalid_value")
    return Order(given)


def flag(request: web.Request, name: str) -> bool:
    given = request.query.get(name, "false").lower()
    if given not in _FLAGS:
        raise InvalidRequest(f"'{name}' must be one of 'true' or 'false'.", field=name, code="invalid_value")
    return _FLAGS[given]


def include(request: web.Request) -> frozenset[str]:
    """The values of `include`. SDKs send a list as `include[]`."""
    given = [value for name in ("include", "include[]") for value in request.query.getall(name, [])]
    for value in given:
        if value not in INCLUDABLE:
            raise InvalidRequest(
                f"Invalid value: '{value}'. 'include' must be one of {', '.join(INCLUDABLE)}.",
                field="include",
                code="invalid_value",
            )
    return frozenset(given)


def number(request: web.Request, name: str, *, least: int, most: int) -> int | None:
    """An integer from `least` to `most`; None if the parameter is not given."""
    given = request.query.get(name)
    if given is None:
        return None
    if _WHOLE_NUMBER.fullmatch(given) is None:
        raise InvalidRequest(f"Invalid type for '{name}': expected an integer.", field=name, code="invalid_type")
    value = int(given)
    if least <= value <= most:
        return value
    code = "integer_below_min_value" if value < least else "integer_above_max_value"
    message = f"Invalid value for '{name}': it must be between {least} and {most}."
    raise InvalidRequest(message, field=name, code=code)
