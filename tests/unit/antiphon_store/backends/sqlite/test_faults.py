from __future__ import annotations

import logging
import sqlite3

import pytest

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.sqlite.faults import translate


def error_with(code: int | None) -> sqlite3.Error:
    error = sqlite3.OperationalError("secret detail")
    if code is not None:
        error.sqlite_errorcode = code
        error.sqlite_errorname = "SQLITE_X"
    return error


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_BUSY, "another process"),
        (sqlite3.SQLITE_FULL, "disk is full"),
        (sqlite3.SQLITE_IOERR_FSYNC, "disk reports an error"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "read-only"),
        (sqlite3.SQLITE_CORRUPT, "damaged"),
    ],
)
def test_an_operational_database_error_becomes_store_unavailable(code: int, words: str) -> None:
    error = translate(error_with(code))
    assert isinstance(error, StoreUnavailable)
    assert words in error.message


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_ERROR, None])
def test_an_unexpected_database_error_becomes_an_internal_error(code: int | None) -> None:
    assert isinstance(translate(error_with(code)), InternalError)


def test_the_cause_of_a_database_error_is_logged_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = translate(error_with(sqlite3.SQLITE_FULL))
    assert "secret detail" in caplog.text
    assert "secret detail" not in error.message
