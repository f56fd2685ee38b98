"""Two base classes of request models, and the tags that say which form a value has.

The text behind a member is what the OpenAPI document says of it (antiphon_edge/openapi/member_docs.py).

A model is compiled when it is first used (`defer_build`), in 3 to 10 ms. Of forty models few are used by themselves,
and compiling all of them took a tenth of an edge's start.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidatorFunctionWrapHandler, WrapValidator

from antiphon_core.request.errors import JSON_KIND_TAGS, TAG


class Exact(BaseModel):
    """A misspelt member would be a wish that nobody hears."""

    model_config = ConfigDict(extra="forbid", strict=True, serialize_by_alias=True, defer_build=True)


class Body(Exact):
    """The whole body of a request."""

    _work_bytes: int = PrivateAttr(0)

    @property
    def work_bytes(self) -> int:
        """`jsons.work_bytes` of the JSON that it was: how long work on it takes (offload.py)."""
        return self._work_bytes

    def with_work(self, work_bytes: int) -> Self:
        """Notes how much work it is."""
        self._work_bytes = work_bytes
        return self


class Open(BaseModel):
    """Members that are not declared are kept and ignored."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)


def _as_given(given: Any, check: ValidatorFunctionWrapHandler) -> Any:
    check(given)
    return given


AsGiven = WrapValidator(_as_given)
"""Checks a value and keeps it as it was written. Writing thousands of items from their models again costs as much as
checking them, and the models take several times the memory."""


def json_kind(value: object) -> str | None:
    """The tag of a form that is told by its JSON type: a text or a list, for example. None: it has no such form."""
    return next((tag for kind, tag in JSON_KIND_TAGS.items() if isinstance(value, kind)), None)


def type_tag(value: object) -> str | None:
    """The tag of a form that is named in the member `type`. None: there is no such member."""
    given = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return TAG + str(given) if given is not None else None
