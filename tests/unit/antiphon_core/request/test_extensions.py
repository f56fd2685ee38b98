from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import Parameters
from antiphon_core.request.extensions import Extensions


def parse(**request: Any) -> Parameters:
    return Parameters.parse(dumps({"model": "m"} | request))


def rejection(**request: Any) -> tuple[str | None, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        parse(**request)
    return caught.value.field, caught.value.code


@pytest.mark.parametrize(
    ("given", "wishes"),
    [
        ({}, {}),
        (
            {"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1},
            {"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1},
        ),
        ({"top_k": -1}, {"top_k": 0}),
        ({"greedy": True}, {"temperature": 0.0}),
        ({"greed_sampling": True}, {"temperature": 0.0}),
        ({"greedy": False, "ignore_eos": True}, {}),
    ],
)
def test_sampling_extensions_have_the_names_of_chat_completions(given: Object, wishes: Object) -> None:
    assert parse(nvext=given).extensions.sampling() == wishes


def test_a_request_without_extensions_has_empty_ones() -> None:
    assert parse().extensions == Extensions()


@pytest.mark.parametrize(
    ("given", "field", "code"),
    [
        ({"topk": 1}, "nvext.topk", "unknown_parameter"),
        ({"top_k": -2}, "nvext.top_k", "integer_below_min_value"),
        ({"top_k": 2**31}, "nvext.top_k", "integer_above_max_value"),
        ({"min_p": 1.5}, "nvext.min_p", "decimal_above_max_value"),
        ({"greedy": "yes"}, "nvext.greedy", "invalid_type"),
        ({"guided_choice": []}, "nvext.guided_choice", "array_below_min_length"),
        ({"guided_json": "x"}, "nvext.guided_json", "invalid_type"),
    ],
)
def test_an_invalid_extension_is_rejected_with_its_path(given: Object, field: str, code: str) -> None:
    assert rejection(nvext=given) == (field, code)


def test_more_than_one_output_constraint_is_rejected() -> None:
    assert rejection(nvext={"guided_regex": "a", "guided_choice": ["a"]}) == (None, "mutually_exclusive_parameters")
    with pytest.raises(InvalidRequest, match=r"'text\.format' and 'nvext\.guided_regex'"):
        parse(nvext={"guided_regex": "a"}).extensions.require_one_guide(["text.format"])


def test_stop_texts_are_one_or_several() -> None:
    assert parse().stop_texts == ()
    assert parse(stop="END").stop_texts == ("END",)
    assert parse(stop=["a", "b"]).stop_texts == ("a", "b")


@pytest.mark.parametrize(
    ("request_", "field", "code"),
    [
        ({"stop": ""}, "stop", "string_below_min_length"),
        ({"stop": ["a", ""]}, "stop[1]", "string_below_min_length"),
        ({"stop": ["a"] * 17}, "stop", "array_above_max_length"),
        ({"stop": 7}, "stop", "invalid_type"),
        ({"seed": -1}, "seed", "integer_below_min_value"),
        ({"seed": 2**32}, "seed", "integer_above_max_value"),
    ],
)
def test_stop_and_seed_have_bounds(request_: Object, field: str, code: str) -> None:
    assert rejection(**request_) == (field, code)
