"""The Open Responses contract, as pydantic models from PyPI: every body and every event is held against it."""

from __future__ import annotations

from typing import Any

from openresponses_types import types
from openresponses_types.types import ResponseResource
from pydantic import BaseModel

from antiphon_core.jsons import Object


def _event_type(model: type[BaseModel]) -> str:
    """The one value that the model's `type` may have."""
    kinds: Any = model.model_fields["type"].annotation
    (kind,) = kinds
    return str(kind.value)


_EVENTS: dict[str, type[BaseModel]] = {
    _event_type(model): model
    for name, model in vars(types).items()
    if name.endswith("StreamingEvent") and isinstance(model, type) and issubclass(model, BaseModel)
}


def validate_response(response: Object) -> None:
    """Raises pydantic.ValidationError when it is not a response resource."""
    ResponseResource.model_validate(response)


def validate_event(event: Object) -> None:
    """Raises pydantic.ValidationError, or KeyError for an event that the contract does not know."""
    _EVENTS[event["type"]].model_validate(event)
