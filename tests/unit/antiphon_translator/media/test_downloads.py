from __future__ import annotations

from typing import get_args

from antiphon_translator.media.downloads import Download, Failure, Problem, at


def test_problems_are_error_codes_of_openai() -> None:
    # Imported here because this import takes half a second, which collection alone need not pay.
    from openai.types.responses.response_error import ResponseError

    assert {problem.value for problem in Problem} <= set(get_args(ResponseError.model_fields["code"].annotation))


def test_url_without_a_download_is_a_failure() -> None:
    found = Download(b"x", "text/plain")
    assert at("u", {"u": found}) is found
    assert isinstance(at("v", {"u": found}), Failure)


def test_repr_of_a_download_hides_its_content() -> None:
    assert "secret" not in repr(Download(b"secret"))
