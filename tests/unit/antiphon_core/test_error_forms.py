from __future__ import annotations

import pytest

from antiphon_core import errors
from antiphon_core.error_forms import CODES_IN_RESPONSES, cause_of, code_in_response, envelope
from antiphon_core.errors import AntiphonError, InvalidRequest, ResponseNotFound, revive


def test_the_envelope_has_all_four_keys() -> None:
    error = ResponseNotFound.of("resp_1")
    assert envelope(error) == {
        "error": {
            "message": "Response with id 'resp_1' not found.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    }


def test_an_error_revived_from_its_cause_has_the_same_envelope() -> None:
    error = InvalidRequest("No.", field="text.format", code="invalid_json_schema", position=3)
    cause = cause_of(error)
    assert cause == {"reason": "INVALID_REQUEST", "field": "text.format", "code": "invalid_json_schema"}
    again = revive(cause.pop("reason"), error.message, cause)
    assert (type(again), envelope(again)) == (type(error), envelope(error))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ContextLengthExceeded.of(input_tokens=9, context_length=8), "context_length_exceeded"),
        (errors.ChainTooLong.of("resp_1", limit="9 items"), "context_length_exceeded"),
        (InvalidRequest("No.", code="image_too_large"), "image_too_large"),
        (InvalidRequest("No.", code="invalid_json_schema"), "invalid_prompt"),
        (InvalidRequest("No tool call found."), "invalid_prompt"),
        (errors.TokenRateExceeded("no"), "rate_limit_exceeded"),
        (errors.EngineFault("no"), "server_error"),
        (errors.SessionLocked.of("s"), "server_error"),
    ],
)
def test_a_failed_response_has_a_code_of_openais_list(error: AntiphonError, code: str) -> None:
    assert code_in_response(error) == code
    assert code in CODES_IN_RESPONSES
