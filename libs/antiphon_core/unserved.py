"""Features that clients may ask for and this server does not have: refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import InvalidRequest


def anything(_: object) -> bool:
    """Whatever is given is a wish, also when it is empty."""
    return True


@dataclass(frozen=True, slots=True)
class Unserved:
    """A well-formed wish that cannot be granted, and what to say then. `field` is the path of a member; `asked` tells a
    wish from a value that only says what is so anyway."""

    field: str
    asked: Callable[[Any], bool]
    message: str
    code: str = "unsupported_parameter"


def refuse(wishes: Iterable[Unserved], request: object) -> None:
    """InvalidRequest: the first of the wishes that the request has."""
    for wish in wishes:
        value = _member(request, wish.field)
        if value is not None and wish.asked(value):
            raise InvalidRequest(wish.message, field=wish.field, code=wish.code)


def _member(request: object, path: str) -> Any:
    """The value at a path; None if the path ends before."""
    value: Any = request
    for name in path.split("."):
        value = getattr(value, name) if value is not None else None
    return value
