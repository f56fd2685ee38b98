from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.store import Order
from antiphon_edge.routes import queries


def test_missing_query_parameters_have_defaults() -> None:
    request = make_mocked_request("GET", "/")
    assert (queries.limit(request), queries.order(request), queries.flag(request, "stream")) == (
        20,
        Order.DESCENDING,
        False,
    )
    assert queries.number(request, "starting_after", least=0, most=9) is None


def test_given_query_parameters_are_read() -> None:
    request = make_mocked_request("GET", "/?limit=3&order=asc&stream=True&starting_after=0")
    assert (queries.limit(request), queries.order(request), queries.flag(request, "stream")) == (
        3,
        Order.ASCENDING,
        True,
    )
    assert queries.number(request, "starting_after", least=0, most=9) == 0


def test_include_is_read_with_and_without_brackets() -> None:
    one, two = "reasoning.encrypted_content", "message.output_text.logprobs"
    for url in (f"/?include={one}&include={two}", f"/?include[]={one}&include[]={two}"):
        assert queries.include(make_mocked_request("GET", url)) == {one, two}
    assert queries.include(make_mocked_request("GET", "/")) == frozenset()


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ("limit=0", "limit", "integer_below_min_value"),
        ("limit=101", "limit", "integer_above_max_value"),
        ("limit=-1", "limit", "integer_below_min_value"),
        ("limit=ten", "limit", "invalid_type"),
        ("limit=", "limit", "invalid_type"),
        ("limit=%D9%A5", "limit", "invalid_type"),  # an Arabic five
        ("limit=%2B5", "limit", "invalid_type"),
        ("limit=+5", "limit", "invalid_type"),  # a plus is a space here
        ("limit=5%0A", "limit", "invalid_type"),
        ("limit=1_0", "limit", "invalid_type"),
        ("limit=1.0", "limit", "invalid_type"),
        ("limit=" + 5_000 * "9", "limit", "invalid_type"),
        ("starting_after=1_0", "starting_after", "invalid_type"),
        ("order=up", "order", "invalid_value"),
        ("stream=maybe", "stream", "invalid_value"),
        ("include=everything", "include", "invalid_value"),
    ],
)
def test_invalid_parameter_is_rejected_by_name(query: str, field: str, code: str) -> None:
    request = make_mocked_request("GET", f"/?{query}")
    with pytest.raises(InvalidRequest) as caught:
        queries.limit(request)
        queries.order(request)
        queries.flag(request, "stream")
        queries.include(request)
        queries.number(request, "starting_after", least=0, most=99)
    assert (caught.value.field, caught.value.code) == (field, code)
