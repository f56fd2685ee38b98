from __future__ import annotations

from dataclasses import fields

from antiphon_edge.settings import EdgeSettings
from antiphon_edge.tools.limits import DEFAULT_LIMITS


def test_each_limit_is_the_default_of_a_setting() -> None:
    settings = EdgeSettings()
    names = {"parallel": "tool_calls_at_once"}
    for each in fields(DEFAULT_LIMITS):
        assert getattr(settings, names.get(each.name, f"tool_{each.name}")) == getattr(DEFAULT_LIMITS, each.name)
