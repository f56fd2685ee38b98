from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.body import Parameters


def parse(**members: Any) -> Parameters:
    return Parameters.parse(dumps({"model": "m"} | members))


@pytest.mark.parametrize(
    "members",
    [
        {"reasoning": {"effort": "high", "summary": "auto", "context": "all_turns", "mode": "standard"}},
        {"stream_options": {"include_obfuscation": True}},
        {"image": {"context_compression": "auto"}},
        {"service_tier": "flex"},
        {"background_options": {"completion_window": "soonest"}},
    ],
)
def test_options_are_kept_as_they_were_given(members: dict[str, Any]) -> None:
    assert parse(**members).as_json() == {"model": "m"} | members


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"reasoning": {"effort": "some"}}, "reasoning.effort"),
        ({"reasoning": {"efort": "high"}}, "reasoning.efort"),
        ({"stream_options": {"include_obfuscation": 1}}, "stream_options.include_obfuscation"),
        ({"image": {"context_compression": "enabled"}}, "image.context_compression"),
        ({"service_tier": "gold"}, "service_tier"),
    ],
)
def test_an_invalid_option_is_rejected_with_its_path(members: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**members)
    assert caught.value.field == field
