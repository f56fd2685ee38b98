"""The lengths of arrays and objects in requests, checked before the first element is validated.

Pydantic validates every element, and reports a finding for each wrong one. A request with 90,000 unknown members, or
values of the wrong type, took 200 to 470 ms with the GIL held, most of it for findings after the first, which nobody
reads. So each array and each map has a limit (antiphon_core.limits), the validation of an array ends with its first
finding, and an object that rejects unknown members has few members (`models.Exact`).
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema


@dataclass(frozen=True, slots=True)
class AtMost:
    """An annotation of a list or dict: it has at most this many elements."""

    count: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bounded: Any = handler(source)
        bounded["max_length"] = self.count  # for the OpenAPI document
        if bounded["type"] == "list":
            bounded["fail_fast"] = True
        return core_schema.no_info_before_validator_function(self._check_length, bounded)

    def _check_length(self, given: Any) -> Any:
        if isinstance(given, list | dict) and len(given) > self.count:
            raise too_long(given, self.count)
        return given


def too_long(given: Sized, most: int) -> PydanticKnownError:
    """The error for a value with more than `most` elements."""
    return PydanticKnownError("too_long", {"field_type": "List", "max_length": most, "actual_length": len(given)})
