from __future__ import annotations

import logging

import psycopg
import pytest
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.postgres.faults import translate


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.ConnectionFailure, "connection to its database was lost"),
        (errors.AdminShutdown, "starting or stopping"),
        (errors.CannotConnectNow, "starting or stopping"),
        (errors.TooManyConnections, "too many connections"),
        (errors.DiskFull, "disk is full"),
        (errors.OutOfMemory, "out of resources"),
        (errors.LockNotAvailable, "held a lock"),
        (errors.QueryCanceled, "too long to answer"),
        (errors.ReadOnlySqlTransaction, "read-only"),
        (errors.InvalidPassword, "rejects the user"),
        (errors.InvalidCatalogName, "does not exist"),
        (errors.UndefinedTable, "tables do not exist"),
        (errors.InsufficientPrivilege, "lacks a permission"),
        (errors.DeadlockDetected, "transactions conflicted"),
        (errors.IoError, "reports an error"),
        (errors.DataCorrupted, "damaged"),
        (psycopg.OperationalError, "cannot be reached"),
        (PoolTimeout, "free in time"),
        (PoolClosed, "closed"),
    ],
)
def test_an_operational_database_error_becomes_store_unavailable(error: type[psycopg.Error], words: str) -> None:
    ours = translate(error("secret detail"))
    assert isinstance(ours, StoreUnavailable)
    assert words in ours.message


@pytest.mark.parametrize(
    "error", [errors.UniqueViolation, errors.SyntaxError, errors.InternalError_, psycopg.DataError]
)
def test_an_unexpected_database_error_becomes_an_internal_error(error: type[psycopg.Error]) -> None:
    assert isinstance(translate(error("secret detail")), InternalError)


def test_the_cause_of_a_database_error_is_logged_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = translate(errors.DiskFull("secret detail"))
    assert "secret detail" in caplog.text
    assert "53100" in caplog.text
    assert "secret detail" not in error.message
