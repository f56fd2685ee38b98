from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from openresponses_types.types import LogProb

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.body import OUTPUT_LOGPROBS, Parameters
from antiphon_translator.logprobs.requested import alternatives_of, as_objects
from antiphon_translator.parsing.segments import Candidate, ScoredToken

BOTH = frozenset({"logprobs", "top_logprobs"})
INCLUDED = {"include": ["reasoning.encrypted_content", OUTPUT_LOGPROBS]}


def asked(**members: Any) -> Parameters:
    return Parameters.parse(dumps({"model": "m"} | members))


@pytest.mark.parametrize(
    ("members", "count"),
    [
        ({}, None),
        ({"include": []}, None),
        ({"include": ["reasoning.encrypted_content"], "top_logprobs": 3}, None),
        (INCLUDED, 0),
        (INCLUDED | {"top_logprobs": 0}, 0),
        (INCLUDED | {"top_logprobs": 20}, 20),
    ],
)
def test_log_probabilities_are_requested_only_if_included(members: dict[str, Any], count: int | None) -> None:
    assert alternatives_of(asked(**members), BOTH) == count


@pytest.mark.parametrize(
    ("controls", "top", "field"),
    [
        (set(), 0, "include"),
        ({"top_logprobs"}, 1, "include"),
        ({"logprobs"}, 1, "top_logprobs"),
    ],
)
def test_logprobs_that_the_engine_lacks_are_rejected(controls: set[str], top: int, field: str) -> None:
    with pytest.raises(InvalidRequest, match="engine") as caught:
        alternatives_of(asked(**INCLUDED, top_logprobs=top), frozenset(controls))
    assert (caught.value.field, caught.value.code) == (field, "unsupported_parameter")


def test_without_alternatives_only_chosen_tokens_can_be_requested() -> None:
    assert alternatives_of(asked(**INCLUDED, top_logprobs=0), frozenset({"logprobs"})) == 0
    assert alternatives_of(asked(top_logprobs=5), frozenset()) is None


def test_token_object_has_its_text_bytes_and_alternatives() -> None:
    token = ScoredToken(" ü".encode(), -0.5, (Candidate(b"\xe2\x98", -1.5), Candidate(b"", -inf)))
    (shown,) = as_objects([token])
    assert shown == {
        "token": " ü",
        "logprob": -0.5,
        "bytes": [32, 195, 188],
        "top_logprobs": [
            {"token": "�", "logprob": -1.5, "bytes": [226, 152]},
            {"token": "", "logprob": -9999.0, "bytes": []},
        ],
    }
    LogProb.model_validate(shown)


def test_infinite_and_nan_logprobs_become_the_lowest_number() -> None:
    assert [each["logprob"] for each in as_objects(ScoredToken(b"", one) for one in (nan, -inf, inf, -1e9, 0.0))] == [
        *(-9999.0, -9999.0, -9999.0, -9999.0, 0.0)
    ]
