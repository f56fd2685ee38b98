from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.engines.chat_usage import merge_usage
from antiphon_translator.generation import ReportedUsage
from tests.support.unread import NotedParts

WRONG: list[object] = [-1, True, "x", "-1", [], 0.5, 10**30, float("nan"), float("inf"), "9" * 5_000]
FULL = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (FULL, ReportedUsage(10, 5)),
        ({"input_tokens": 10, "output_tokens": 5}, ReportedUsage(10, 5)),
        ({"prompt_tokens": 10.0, "completion_tokens": "5"}, ReportedUsage(10, 5)),
        (FULL | {"prompt_tokens_details": {"cached_tokens": 8}}, ReportedUsage(10, 5, cached_tokens=8)),
        (FULL | {"completion_tokens_details": {"reasoning_tokens": 3}}, ReportedUsage(10, 5, reasoning_tokens=3)),
        (FULL | {"prompt_tokens_details": None, "reasoning_tokens": 2}, ReportedUsage(10, 5, reasoning_tokens=2)),
        (FULL | {"prompt_tokens_details": {"cached_tokens": None}, "cached_tokens": 4}, ReportedUsage(10, 5, None, 4)),
        (FULL | {"prompt_cache_hit_tokens": 8}, ReportedUsage(10, 5, cached_tokens=8)),
        ({"prompt_tokens": 10, "completion_tokens": None}, ReportedUsage(10)),
        ({"completion_tokens": 5}, ReportedUsage(None, 5)),
        *(({"prompt_tokens": 10, "completion_tokens": wrong}, ReportedUsage(10)) for wrong in WRONG),
    ],
)
def test_counts_are_read_where_they_can_be_right(given: Object, expected: ReportedUsage) -> None:
    assert merge_usage(None, given, unread := NotedParts()) == expected
    assert unread.parts == []


def test_each_count_is_the_last_that_was_reported() -> None:
    unread = NotedParts()
    early = merge_usage(None, {"prompt_tokens": 10, "total_tokens": 10}, unread)
    grown = merge_usage(merge_usage(early, {"completion_tokens": 1}, unread), {"completion_tokens": 2}, unread)
    assert (early, grown) == (ReportedUsage(10), ReportedUsage(10, 2))
    assert merge_usage(grown, {"completion_tokens": None}, unread) == grown


@pytest.mark.parametrize(("given", "parts"), [({}, []), ({"a": None}, []), ({"a": 1}, ["usage"]), ([], ["usage"])])
def test_usage_without_any_count_is_unreported(given: object, parts: list[str]) -> None:
    unread = NotedParts()
    assert merge_usage(None, given, unread) is None
    assert merge_usage(ReportedUsage(1), given, NotedParts()) == ReportedUsage(1)
    assert unread.parts == parts
