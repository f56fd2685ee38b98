"""Chooses the sampling of a turn: the values of the request, else the model's defaults, within the engine's controls.

If the engine lacks a control, a request that sets it is rejected, and a default of the model for it is ignored. The
response echoes the values that are in effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.generation import Sampling


@dataclass(frozen=True, slots=True)
class _Control:
    """One member of Sampling. `neutral` is the value that has no effect, and its type is the type of all values: an
    engine that takes a whole number rejects 40.0.

    Controls that are `always_sent` are sent even with their neutral value: without a top_k or top_p, TensorRT-LLM
    decodes greedily, whatever the temperature.
    """

    name: str
    neutral: float
    always_sent: bool = False
    field: str = ""
    """The field of a request that sets it, if that is not its own name."""


_CONTROLS = (
    _Control("temperature", neutral=1.0, always_sent=True),
    _Control("top_p", neutral=1.0, always_sent=True),
    _Control("top_k", neutral=0, field="nvext.top_k"),
    _Control("min_p", neutral=0.0, field="nvext.min_p"),
    _Control("repetition_penalty", neutral=1.0, field="nvext.repetition_penalty"),
    _Control("presence_penalty", neutral=0.0),
    _Control("frequency_penalty", neutral=0.0),
)


def choose(
    *, asked: Object, defaults: Mapping[str, float | int], controls: frozenset[str], seed: int
) -> tuple[Sampling, dict[str, Any]]:
    """Chooses the sampling that is sent to the engine, and the values in effect by name.

    `asked` has the client's values by the names of the controls. Without a seed of the client, `seed` is sent if the
    engine takes one, because TensorRT-LLM's default seed is the same for every request.
    InvalidRequest: the client set a control that the engine lacks.
    """
    effective: dict[str, Any] = {}
    sent: dict[str, Any] = {}
    for control in _CONTROLS:
        name = control.name
        value = effective[name] = _value(control, asked.get(name), defaults.get(name), is_known=name in controls)
        if name in controls and (control.always_sent or value != control.neutral):
            sent[name] = value
    if "seed" in controls:
        sent["seed"] = asked.get("seed", seed)
    elif "seed" in asked:
        raise unsupported_error("seed")
    return Sampling(**sent), effective


def _value(control: _Control, asked: float | None, default: float | None, *, is_known: bool) -> float:
    """The value in effect. InvalidRequest: the engine does not know the control that the client set."""
    if is_known:
        given = default if asked is None else asked
        return control.neutral if given is None else type(control.neutral)(given)
    if asked is not None and asked != control.neutral:
        raise unsupported_error(control.field or control.name)
    return control.neutral


def unsupported_error(field: str) -> InvalidRequest:
    """The error for a field whose control the engine lacks."""
    return InvalidRequest(
        f"Unsupported parameter: '{field}' is not supported with this model.",
        field=field,
        code="unsupported_parameter",
    )
