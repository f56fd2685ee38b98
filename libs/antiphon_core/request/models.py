"""Base classes of request models, and the tags that distinguish the forms of a value.

The docstring after a member of a model is its description in the OpenAPI document
(antiphon_edge/openapi/member_docs.py).

A model is compiled when it is first used (`defer_build`), in 3 to 10 ms. Few of the forty models are used by
themselves, and compiling all of them took a tenth of an edge's start.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from antiphon_core import limits
from antiphon_core.jsons import Object, parse_object, work_bytes
from antiphon_core.request.errors import JSON_KIND_TAGS, TAG, from_validation
from antiphon_core.request.lengths import too_long

ItemId = Annotated[str, Field(max_length=limits.ITEM_ID_CHARS_MAX)]
"""The id of an item, which stores have in an index. OpenAI's ids have 64 characters at most."""


class Exact(BaseModel):
    """A model that rejects undeclared members, so that a misspelt parameter is not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, serialize_by_alias=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _require_few_members(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > limits.MEMBERS_ITEMS_MAX:
            raise too_long(given, limits.MEMBERS_ITEMS_MAX)
        return given


class Body(Exact):
    """The whole body of a request."""

    _work_bytes: int = PrivateAttr(0)

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parses a JSON body. InvalidRequest: `field` is the path of the wrong member."""
        return cls.of(parse_object(body), work_bytes=work_bytes(body))

    @classmethod
    def of(cls, given: Object, *, work_bytes: int) -> Self:
        """Validates a parsed body. `work_bytes` are those of its JSON. InvalidRequest as in `parse`."""
        try:
            request = cls.model_validate(given)
        except ValidationError as error:
            raise from_validation(error) from error
        request._work_bytes = work_bytes  # noqa: SLF001 - of the class itself
        return request

    @property
    def work_bytes(self) -> int:
        """`jsons.work_bytes` of the body, which determines how long work on it takes (offload.py)."""
        return self._work_bytes


class Open(BaseModel):
    """A model that keeps undeclared members and ignores them."""

    model_config = ConfigDict(extra="allow", strict=True, serialize_by_alias=True, defer_build=True)


def _as_given(given: Any, check: ValidatorFunctionWrapHandler) -> Any:
    check(given)
    return given


AsGiven = WrapValidator(_as_given)
"""Validates a value and keeps it as it was written, instead of as models. Serializing thousands of items from models
takes as long as validating them, and the models take several times the memory."""


def json_kind(value: object) -> str | None:
    """The tag of a form that its JSON type determines, such as a string or an array; None for other types."""
    for kind, tag in JSON_KIND_TAGS.items():
        if isinstance(value, kind):
            return tag
    return None


def type_tag(value: object) -> str | None:
    """The tag of a form that the member `type` names; None without this member."""
    given = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return TAG + str(given) if given is not None else None
