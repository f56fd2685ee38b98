from __future__ import annotations

import logging

import pytest
from redis import exceptions

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.redis.faults import TooFewCopies, translate


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (exceptions.ConnectionError("Error 111"), "cannot be reached"),
        (ConnectionResetError(), "cannot be reached"),
        (exceptions.TimeoutError("Timeout"), "does not answer"),
        (TimeoutError(), "does not answer"),
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "loading"),
        (exceptions.ReadOnlyError("You can't write against a read only replica."), "replica"),
        (exceptions.OutOfMemoryError("command not allowed"), "out of memory"),
        (exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), "too few replicas"),
        (exceptions.ResponseError("MISCONF Redis is configured to save"), "cannot save"),
        (exceptions.ClusterDownError("CLUSTERDOWN The cluster is down"), "cover all slots"),
        (exceptions.AuthenticationError("invalid username-password pair"), "credentials"),
        (exceptions.NoPermissionError("this user has no permissions"), "credentials"),
        (TooFewCopies("put reached 0 of 1"), "may be kept or lost"),
    ],
)
def test_what_may_pass_is_unavailable(error: Exception, words: str) -> None:
    translated = translate(error)
    assert isinstance(translated, StoreUnavailable)
    assert words in translated.message


@pytest.mark.parametrize("text", ["ERR user_script:3: attempt to index a nil value", "WRONGTYPE Operation", ""])
def test_what_will_not_pass_is_our_bug(text: str) -> None:
    assert isinstance(translate(exceptions.ResponseError(text)), InternalError)


def test_the_cause_is_logged_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = translate(exceptions.ResponseError("secret detail"))
    assert "secret detail" in caplog.text
    assert "secret detail" not in error.message
