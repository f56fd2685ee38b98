"""Features of the API that this server does not have. A request that uses one is rejected, so that none is ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import InvalidRequest


def anything(_: object) -> bool:
    """For `Unserved.asked`: every value asks for the feature, even an empty one."""
    return True


@dataclass(frozen=True, slots=True)
class Unserved:
    """A member of requests for an unsupported feature, and the error for it. `field` is the path of the member; `asked`
    returns whether a value asks for the feature, rather than for the default."""

    field: str
    asked: Callable[[Any], bool]
    message: str
    code: str = "unsupported_parameter"


def reject(features: Iterable[Unserved], request: object, *, within: str = "") -> None:
    """Raises InvalidRequest for the first of `features` that the request, or the part of it at the path `within`, asks
    for."""
    for feature in features:
        name, *rest = feature.field.split(".")
        value = getattr(request, name)
        for name in rest:  # of few requests: most have no such member at all
            value = getattr(value, name) if value is not None else None
        if value is not None and feature.asked(value):
            field = f"{within}.{feature.field}" if within else feature.field
            raise InvalidRequest(feature.message, field=field, code=feature.code)
