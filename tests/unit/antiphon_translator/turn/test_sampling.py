from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import Sampling
from antiphon_translator.turn import sampling


def choose(
    asked: Object, defaults: dict[str, float | int] | None = None, controls: frozenset[str] = ALL_CONTROLS
) -> tuple[Sampling, Object]:
    return sampling.choose(asked=asked, defaults=defaults or {}, controls=controls, seed=7)


def test_request_wins_over_model_defaults_and_they_over_the_standard() -> None:
    chosen, effective = choose({"temperature": 0.3}, {"temperature": 0.6, "top_p": 0.9, "top_k": 20})
    assert chosen == Sampling(temperature=0.3, top_p=0.9, top_k=20, seed=7)
    assert (effective["temperature"], effective["top_p"]) == (0.3, 0.9)


def test_temperature_and_top_p_are_always_sent_and_neutral_penalties_never() -> None:
    chosen, effective = choose({"presence_penalty": 0})
    assert chosen == Sampling(temperature=1.0, top_p=1.0, seed=7)
    assert effective["frequency_penalty"] == 0.0


def test_temperature_zero_is_not_taken_for_missing() -> None:
    chosen, effective = choose({"temperature": 0}, {"temperature": 0.6})
    assert (chosen.temperature, effective["temperature"]) == (0.0, 0.0)


def test_requested_control_that_the_engine_lacks_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        choose({"presence_penalty": 1.5}, controls=ALL_CONTROLS - {"presence_penalty"})
    assert (caught.value.field, caught.value.code) == ("presence_penalty", "unsupported_parameter")


def test_default_that_the_engine_lacks_is_neither_sent_nor_echoed() -> None:
    chosen, effective = choose({"top_p": 1}, {"temperature": 0.6}, frozenset())
    assert chosen == Sampling()
    assert effective["temperature"] == 1.0


def test_requested_seed_is_used() -> None:
    assert choose({"seed": 42})[0].seed == 42


def test_seed_for_an_engine_without_seeds_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        choose({"seed": 42}, controls=ALL_CONTROLS - {"seed"})
    assert caught.value.field == "seed"


def test_rejected_extension_has_its_nvext_path() -> None:
    with pytest.raises(InvalidRequest) as caught:
        choose({"top_k": 5}, controls=frozenset())
    assert caught.value.field == "nvext.top_k"


def test_top_k_of_a_request_stays_a_whole_number() -> None:
    chosen, effective = choose({"top_k": 40, "temperature": 1})
    assert (type(chosen.top_k), chosen.top_k) == (int, 40)
    assert (type(effective["temperature"]), effective["temperature"]) == (float, 1.0)
