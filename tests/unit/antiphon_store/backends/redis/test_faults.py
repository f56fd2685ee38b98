from __future__ import annotations

import logging

import pytest
from redis import exceptions
from redis._parsers import BaseParser

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.redis.faults import TooFewCopies, translate


def from_server(text: str) -> Exception:
    """The error that the client makes of a server's error."""
    error: Exception = BaseParser.parse_error(text)  # type: ignore[no-untyped-call]
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (exceptions.ConnectionError("Error 111"), "cannot be reached"),
        (ConnectionResetError(), "cannot be reached"),
        (exceptions.TimeoutError("Timeout"), "does not answer"),
        (TimeoutError(), "does not answer"),
        (from_server("LOADING Redis is loading the dataset in memory"), "loading"),
        (from_server("READONLY You can't write against a read only replica."), "replica"),
        (from_server("OOM command not allowed"), "out of memory"),
        (from_server("NOREPLICAS Not enough good replicas to write."), "too few replicas"),
        (from_server("MISCONF Redis is configured to save"), "cannot save"),
        (from_server("CLUSTERDOWN The cluster is down"), "cover all slots"),
        (from_server("MOVED 3999 127.0.0.1:6381"), "moving the data"),
        (from_server("WRONGPASS invalid username-password pair"), "credentials"),
        (from_server("NOPERM this user has no permissions"), "credentials"),
        (exceptions.AuthenticationError("Invalid Username or Password"), "credentials"),
        (exceptions.RedisClusterException("Redis Cluster cannot be connected."), "cover all slots"),
        (TooFewCopies("put reached 0 of 1"), "may be kept or lost"),
    ],
)
def test_an_operational_database_error_becomes_store_unavailable(error: Exception, words: str) -> None:
    translated = translate(error)
    assert isinstance(translated, StoreUnavailable)
    assert words in translated.message


@pytest.mark.parametrize("text", ["ERR user_script:3: attempt to index a nil value", "WRONGTYPE Operation", ""])
def test_an_unexpected_database_error_becomes_an_internal_error(text: str) -> None:
    assert isinstance(translate(exceptions.ResponseError(text)), InternalError)


def test_the_cause_of_a_database_error_is_logged_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = translate(exceptions.ResponseError("secret detail"))
    assert "secret detail" in caplog.text
    assert "secret detail" not in error.message
