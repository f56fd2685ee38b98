from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request import prompt_cache
from antiphon_core.request.body import Parameters


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "explicit", "comparison_response_id": "resp_1"},
        {"mode": "implicit", "ttl": "30m"},
        {"ttl": "12h", "prewarm": False},
    ],
)
def test_options_are_kept_as_they_were_given(options: dict[str, Any]) -> None:
    asked = {"model": "m", "prompt_cache_options": options}
    assert Parameters.parse(dumps(asked)).as_json() == asked


@pytest.mark.parametrize("options", [{"ttl": "1h"}, {"mode": "some"}, {"prewarm": 1}, {"lifetime": "1h"}])
def test_invalid_option_is_rejected_with_its_path(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Parameters.parse(dumps({"model": "m", "prompt_cache_options": options}))
    assert caught.value.field == f"prompt_cache_options.{next(iter(options))}"


def test_response_says_no_lifetime_that_the_engine_was_not_told() -> None:
    assert prompt_cache.options_in_effect() == {"mode": "implicit"}
    assert prompt_cache.options_in_effect("explicit", "12h") == {"mode": "explicit", "ttl": "12h"}
