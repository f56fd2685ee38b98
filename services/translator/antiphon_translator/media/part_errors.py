"""Errors for a part of a conversation that cannot be used: its path, the reason, and OpenAI's code."""

from __future__ import annotations

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, kind


def part_error(path: str, why: str, code: str) -> InvalidRequest:
    return InvalidRequest(f"'{path}' cannot be used: {why}.", field=path, code=code)


def too_large(path: str, what: str, bytes_max: int, code: str) -> InvalidRequest:
    return part_error(path, f"{what} can have at most {bytes_max / 2**20:g} MiB", code)


def text_member(part: Object, member: str, path: str) -> str:
    """A member of a part that must be a string. InvalidRequest: it is not."""
    given = part.get(member)
    if isinstance(given, str):
        return given
    path = f"{path}.{member}"
    raise InvalidRequest(f"'{path}' must be a string, but is {kind(given)}.", field=path, code="invalid_type")
