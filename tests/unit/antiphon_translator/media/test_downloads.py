from __future__ import annotations

from typing import get_args

from antiphon_translator.media.downloads import Download, Failure, Problem, at


def test_problems_are_called_as_openai_calls_them() -> None:
    # Imported here: it takes half a second, of every run that only collects this file.
    from openai.types.responses.response_error import ResponseError

    assert {problem.value for problem in Problem} <= set(get_args(ResponseError.model_fields["code"].annotation))


def test_url_without_a_download_is_a_failure() -> None:
    found = Download(b"x", "text/plain")
    assert at("u", {"u": found}) is found
    assert isinstance(at("v", {"u": found}), Failure)


def test_content_is_not_printed() -> None:
    assert "secret" not in repr(Download(b"secret"))
