"""The parameters of a request, read, checked and compiled for an engine.

The parameters do not include the input, so an application sends the same ones, with tools and schemas, in each turn.
Small ones are cached: they are read once for all turns that repeat them. So they have no data of a single turn, and are
never changed.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

from antiphon_core.jsons import Object
from antiphon_core.request.body import Parameters
from antiphon_translator.generation import Guide
from antiphon_translator.logprobs import requested as logprobs
from antiphon_translator.schemas import guides, structured
from antiphon_translator.schemas.answer_check import AnswerCheck
from antiphon_translator.turn import sampling

PARAMETERS_KEPT_MAX = 64
KEPT_REQUEST_BYTES_MAX = 16 * 2**10
"""Larger parameters are not cached. Checked parameters take about ten times the bytes of their JSON."""


@dataclass(frozen=True, slots=True)
class CheckedParameters:
    """The parameters, and the values that depend only on them and on the engine's controls."""

    parameters: Parameters
    asked: Object
    """The parameters that were given, as JSON values."""
    answer_check: AnswerCheck | None
    guide: Guide | None
    top_logprobs: int | None


def check_parameters(request: bytes, controls: frozenset[str], *, finds_stops: bool = True) -> CheckedParameters:
    """The parameters in `request`, a JSON object, for an engine of these controls. `finds_stops`: the translator
    searches for stop sequences, so that they need no control.

    InvalidRequest: `request` holds no parameters, or the engine lacks something that they ask for.
    """
    read = _kept if len(request) <= KEPT_REQUEST_BYTES_MAX else _read
    return read(request, controls, finds_stops)


def _read(request: bytes, controls: frozenset[str], finds_stops: bool) -> CheckedParameters:
    parameters = Parameters.parse(request)
    answer_check = structured.answer_check(parameters.text.format if parameters.text else None)
    _require_controls(parameters, controls | {"stop"} if finds_stops else controls)
    guide = guides.of_request(parameters, controls)
    top_logprobs = logprobs.alternatives_of(parameters, controls)
    return CheckedParameters(parameters, parameters.as_json(), answer_check, guide, top_logprobs)


_kept = lru_cache(maxsize=PARAMETERS_KEPT_MAX)(_read)


def _require_controls(parameters: Parameters, controls: AbstractSet[str]) -> None:
    """InvalidRequest: the engine lacks a control that the parameters ask for."""
    asked = {"stop": ("stop", parameters.stop), "ignore_eos": ("nvext.ignore_eos", parameters.extensions.ignore_eos)}
    for control, (field, value) in asked.items():
        if value and control not in controls:
            raise sampling.unsupported_error(field)
