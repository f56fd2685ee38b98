from __future__ import annotations

from contextlib import ExitStack

import pytest

from antiphon_core.errors import RequestRateExceeded
from antiphon_edge.quotas.response_readers import ResponseReaders


def test_readers_of_a_response_above_the_limit_are_rejected_with_the_setting() -> None:
    readers = ResponseReaders(2)
    with ExitStack() as first, ExitStack() as others:
        for _ in range(2):
            first.enter_context(readers.one_more("t", "resp_1"))
        with (
            pytest.raises(RequestRateExceeded, match=r"edge\.readers_per_response") as raised,
            readers.one_more("t", "resp_1"),
        ):
            pass
        assert raised.value.facts["retry_after_ms"]
        others.enter_context(readers.one_more("t", "resp_2"))
        others.enter_context(readers.one_more("u", "resp_1"))
    with readers.one_more("t", "resp_1"):
        assert len(readers._readers) == 1
    assert not readers._readers


def test_zero_is_no_limit() -> None:
    readers = ResponseReaders()
    with ExitStack() as open_:
        for _ in range(100):
            open_.enter_context(readers.one_more("t", "resp_1"))
