from __future__ import annotations

import pytest

from antiphon_core.errors import AntiphonError, InternalError, InvalidRequest, Unavailable
from antiphon_core.unexpected import as_antiphon_error


@pytest.mark.parametrize(
    ("error", "kind", "logged"),
    [
        (InvalidRequest("no"), InvalidRequest, ""),
        (MemoryError(), Unavailable, "a call failed: this process has no memory left"),
        (ZeroDivisionError(), InternalError, "a call failed"),
    ],
)
def test_callers_get_an_error_that_says_whether_a_retry_helps(
    error: Exception, kind: type[AntiphonError], logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert type(as_antiphon_error(error, "a call", "Sorry.")) is kind
    assert [record.getMessage() for record in caplog.records] == ([logged] if logged else [])
