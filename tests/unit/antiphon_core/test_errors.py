from __future__ import annotations

import inspect

import pytest

from antiphon_core import errors
from antiphon_core.errors import (
    TABLE,
    AntiphonError,
    InvalidRequest,
    ModelNotFound,
    StoreUnavailable,
    for_log,
    revive,
    row_of,
)

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, AntiphonError) and cls is not AntiphonError
]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_class_has_one_row_and_is_drawn_in_the_docstring(cls: type[AntiphonError]) -> None:
    assert [row.error for row in TABLE].count(cls) == 1
    assert errors.__doc__ is not None
    assert f"─ {cls.__name__}" in errors.__doc__


def test_reasons_are_unique() -> None:
    reasons = [row.reason for row in TABLE]
    assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.reason)
def test_a_revived_error_keeps_class_message_field_and_facts(row: errors.Row) -> None:
    error = row.error("what happened", field="input[3]", id="resp_1", count=7)
    facts = error.facts | {"field": "input[3]"}
    back = revive(error.reason, error.message, facts)
    assert type(back) is type(error)
    assert (back.message, back.field, back.facts) == ("what happened", "input[3]", {"id": "resp_1", "count": "7"})


def test_an_unknown_reason_is_an_internal_error() -> None:
    assert isinstance(revive("FROM_THE_FUTURE", "?", {}), errors.InternalError)


def test_an_invalid_request_has_the_given_code() -> None:
    assert InvalidRequest("no", code="invalid_type").code == "invalid_type"
    assert InvalidRequest("no").code is None


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.PreviousResponseNotFound.of("r"), "Previous response with id 'r' not found."),
        (
            errors.PreviousResponseNotReady.of("r", status="queued"),
            "Response with id 'r' is still queued. Wait until it has ended, or cancel it, and continue it then.",
        ),
        (errors.ModelNotFound.of("m"), "The model 'm' does not exist or is not served here."),
        (errors.VersionMismatch.of("r", expected=1, actual=2), "'r' is at version 2, not 1."),
        (errors.PermissionDenied.of("n", tenant="t"), "The credential 'n' may not speak for the tenant 't'."),
        (errors.Unimplemented.of("Fork"), "Fork is not implemented."),
    ],
)
def test_error_messages_name_their_subject(error: AntiphonError, message: str) -> None:
    assert str(error) == message


def test_error_facts_are_separate_from_the_message() -> None:
    error = errors.ContextLengthExceeded.of(input_tokens=9_000, context_length=8_192)
    assert error.facts == {"input_tokens": "9000", "context_length": "8192"}
    assert error.field == "input"


def test_a_long_value_in_an_error_is_cut_in_message_facts_and_field() -> None:
    error = errors.ItemNotFound.of("x" * 100_000)
    assert error.message == str(error) == "Item with id '" + "x" * 582 + " [...] " + "x" * 584 + "' not found."
    assert error.facts == {"id": "x" * 124 + " [...] " + "x" * 124}
    assert len(InvalidRequest("?", field="metadata." + "x" * 100_000).field or "") == 255


def test_an_error_code_of_none_is_not_a_fact() -> None:
    error = errors.InvalidRequest("what happened", field="input", code=None)
    assert (error.facts, error.code) == ({}, None)


@pytest.mark.parametrize("error", [errors.Unauthenticated("no"), errors.PermissionDenied.of("edge", tenant="t")])
def test_an_authentication_error_between_services_is_a_server_error_over_http(error: AntiphonError) -> None:
    row = row_of(error)
    assert (row.http_status, row.openai_type) == (500, "server_error")


@pytest.mark.parametrize(
    ("error", "status", "openai_type", "code"),
    [
        (errors.InvalidApiKey("no"), 401, "invalid_request_error", "invalid_api_key"),
        (errors.RequestRateExceeded("no", retry_after_ms=250), 429, "requests", "rate_limit_exceeded"),
        (errors.TokenRateExceeded("no", retry_after_ms=250), 429, "tokens", "rate_limit_exceeded"),
    ],
)
def test_api_key_and_rate_limit_errors_have_openais_types_and_codes(
    error: AntiphonError, status: int, openai_type: str, code: str
) -> None:
    row = row_of(error)
    assert (row.http_status, row.openai_type, error.code) == (status, openai_type, code)


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (InvalidRequest("'canary' is wrong.", code="invalid_value"), "InvalidRequest invalid_value"),
        (InvalidRequest("'canary' is wrong."), "InvalidRequest"),
        (ModelNotFound.of("canary"), "ModelNotFound model_not_found"),
        (StoreUnavailable("The store is gone."), "The store is gone."),
        (ValueError("odd"), "odd"),
    ],
)
def test_errors_of_requests_are_logged_without_their_messages(error: Exception, logged: str) -> None:
    assert for_log(error) == logged
