from __future__ import annotations

import logging

import pytest

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.faults import report


@pytest.mark.parametrize(("reason", "kind"), [("the disk is full", StoreUnavailable), (None, InternalError)])
def test_the_traceback_is_logged_where_no_reason_is_known(
    caplog: pytest.LogCaptureFixture, reason: str | None, kind: type[Exception]
) -> None:
    with caplog.at_level(logging.ERROR):
        error = report("database", ValueError("secret detail"), "CODE_7", reason)
    assert isinstance(error, kind)
    assert "secret detail" not in str(error)
    assert (reason or "failed") in str(error)
    (record,) = caplog.records
    assert record.getMessage() == "database: secret detail (CODE_7)"
    assert (record.exc_info is None) is (reason is not None)
