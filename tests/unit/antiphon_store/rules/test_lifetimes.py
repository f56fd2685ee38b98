from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_store.rules.lifetimes import lifetime_ms


@pytest.mark.parametrize(
    ("ttl_ms", "default_s", "most_s", "lifetime"),
    [(None, None, 9, None), (None, 5, 9, 5_000), (7, 5, None, 7), (9_000, 5, 9, 9_000)],
)
def test_a_lifetime_is_the_given_one_or_the_default(
    ttl_ms: int | None, default_s: int | None, most_s: int | None, lifetime: int | None
) -> None:
    assert lifetime_ms(ttl_ms, default_s, most_s) == lifetime


def test_a_lifetime_over_the_limit_of_the_policy_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        lifetime_ms(9_001, None, 9)
    assert caught.value.field == "ttl_ms"
