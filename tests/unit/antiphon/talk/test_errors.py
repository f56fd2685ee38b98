from __future__ import annotations

from antiphon.talk.errors import ApiError


def test_str_of_api_error_is_its_message() -> None:
    error = ApiError("Not here.", 404, "model_not_found")
    assert (str(error), error.status, error.code) == ("Not here.", 404, "model_not_found")
