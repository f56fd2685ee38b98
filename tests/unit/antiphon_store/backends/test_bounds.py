from __future__ import annotations

import pytest

from antiphon_core.errors import ChainTooLong
from antiphon_store.backends.bounds import ChainBounds

BOUNDS = ChainBounds("resp_x", max_depth=3, max_bytes=100)


def test_the_limit_itself_is_allowed() -> None:
    BOUNDS.require_depth(3)
    BOUNDS.require_bytes(100)


def test_over_the_limit_is_an_error_that_names_it() -> None:
    with pytest.raises(ChainTooLong) as caught:
        BOUNDS.require_depth(4)
    assert caught.value.facts == {"id": "resp_x", "limit": "3 responses"}
    with pytest.raises(ChainTooLong) as caught:
        BOUNDS.require_bytes(101)
    assert caught.value.facts["limit"] == "100 bytes"
