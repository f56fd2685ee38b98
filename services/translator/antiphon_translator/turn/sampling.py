"""How a turn samples: what was asked, over what the model was tuned for, as far as the engine can do it.

A control that the engine lacks is refused by name when somebody asked for it, and left at its neutral value when it
is only the model's default. The response echoes the values that were really in effect.
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
    """One member of Sampling. `neutral` is the value that changes nothing.

    TensorRT-LLM takes the best token, whatever the temperature, unless it is told a top_k or top_p; so those that are
    `always_sent` are sent with their neutral value too.
    """

    name: str
    neutral: float
    always_sent: bool = False
    field: str = ""
    """Where a request says it; by its own name, if nothing else is said."""


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

    `asked` has the client's values by the names of the controls. Where the client gave no seed, `seed` is used if the
    engine takes one: TensorRT-LLM's own is the same for every request.
    InvalidRequest: the client asked for something that the engine cannot do.
    """
    effective = {control.name: _value(control, asked, defaults, controls) for control in _CONTROLS}
    sent: dict[str, Any] = {
        control.name: effective[control.name]
        for control in _CONTROLS
        if control.name in controls and (control.always_sent or effective[control.name] != control.neutral)
    }
    if "seed" in controls:
        sent["seed"] = asked.get("seed", seed)
    elif "seed" in asked:
        raise unsupported("seed")
    return Sampling(**sent), effective


def _value(control: _Control, asked: Object, defaults: Mapping[str, float | int], controls: frozenset[str]) -> float:
    wish = asked.get(control.name)
    if control.name in controls:
        return float(wish) if wish is not None else defaults.get(control.name, control.neutral)
    if wish is not None and wish != control.neutral:
        raise unsupported(control.field or control.name)
    return control.neutral


def unsupported(field: str) -> InvalidRequest:
    """The engine cannot do what this field asks for."""
    return InvalidRequest(
        f"Unsupported parameter: '{field}' is not supported with this model.",
        field=field,
        code="unsupported_parameter",
    )
