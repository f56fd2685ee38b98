"""The Open Responses contract as pydantic models from PyPI, against which every body and event is validated."""

from __future__ import annotations

from typing import Any

from openresponses_types import types
from openresponses_types.types import ResponseResource
from pydantic import BaseModel

from antiphon_core.jsons import Object


def _event_type(model: type[BaseModel]) -> str:
    """Returns the only value that the model's `type` may have."""
    kinds: Any = model.model_fields["type"].annotation
    (kind,) = kinds
    return str(kind.value)


_EVENTS: dict[str, type[BaseModel]] = {
    _event_type(model): model
    for name, model in vars(types).items()
    if name.endswith("StreamingEvent") and isinstance(model, type) and issubclass(model, BaseModel)
}


def validate_response(response: Object) -> None:
    """Validates a response. pydantic.ValidationError: the value is no response resource."""
    ResponseResource.model_validate(response)


def validate_event(event: Object) -> None:
    """Validates an event. pydantic.ValidationError: the event is invalid. KeyError: the contract has no such event."""
    _EVENTS[event["type"]].model_validate(event)
