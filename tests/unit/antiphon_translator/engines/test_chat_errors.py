from __future__ import annotations

from time import thread_time
from typing import Any

import pytest

from antiphon_core.errors import (
    AntiphonError,
    ContextLengthExceeded,
    EngineFault,
    EngineMisconfigured,
    EngineOverloaded,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
)
from antiphon_core.telemetry.log_fields import REMEDY
from antiphon_translator.engines import chat_errors

URL = "http://vllm.internal:8000/v1"


def error(told: object, status: int = 400, retry_after: str | None = None) -> AntiphonError:
    return chat_errors.of_answer(told, status=status, server="The server", model="m", url=URL, retry_after=retry_after)


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"object": "error", "message": "Roles must alternate.", "type": "BadRequestError", "code": 400}, 400),
        ({"error": {"message": "Roles must alternate.", "code": "bad"}}, 422),
        ({"detail": [{"loc": ["body", "messages"], "msg": "Roles must alternate."}]}, 422),
        ({"detail": "Roles must alternate."}, 400),
        ({"error": "Roles must alternate."}, 400),
        ("Roles must alternate.", 400),
        ({"error": {"message": "Roles must alternate.", "code": 400}}, 200),
    ],
)
def test_request_rejected_by_the_server_is_invalid_with_the_servers_reason(told: object, status: int) -> None:
    found = error(told, status)
    assert type(found) is InvalidRequest
    assert found.message == "The server rejects the request: Roles must alternate."
    assert found.code == "engine_refused"


MMPROJ = "hint: if this is unexpected, you may need to provide the mmproj"


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize(
    "reason",
    [
        f"image input is not supported - {MMPROJ}",
        f"audio input is not supported - {MMPROJ}",
        "smollm2 is not a multimodal model",
    ],
)
def test_media_that_the_model_cannot_take_is_invalid_whatever_the_status(reason: str, status: int) -> None:
    found = error({"error": {"code": status, "message": reason, "type": "server_error"}}, status)
    assert (type(found), found.code) == (InvalidRequest, "engine_refused")
    assert reason in found.message


@pytest.mark.parametrize("reason", ["image processor crashed", "input is not supported", "no multimodal model loaded"])
def test_failure_that_is_not_about_what_a_model_takes_stays_a_fault(reason: str) -> None:
    assert type(error({"error": {"message": reason, "code": 500}}, 500)) is EngineFault


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (
            {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000", "code": 400},
            400,
        ),
        ({"error": {"message": "Too long.", "code": "context_length_exceeded"}}, 400),
        ({"error": {"message": "Too long.", "type": "exceed_context_size_error", "code": 400}}, 400),
        ({"error": {"message": "the request exceeds the available context size, try increasing it", "code": 500}}, 500),
        ({"message": "Requested token count exceeds the model's maximum context length of 4096 tokens."}, 400),
        ({"message": "The decoder prompt (length 9) is longer than the maximum model length of 8."}, 400),
        ({"message": "max_tokens must be at least 1, got -186.", "code": 400}, 400),
    ],
)
def test_too_long_prompt_is_a_context_length_exceeded_error(told: object, status: int) -> None:
    found = error(told, status)
    assert isinstance(found, ContextLengthExceeded)
    assert (found.code, found.field) == ("context_length_exceeded", "input")


@pytest.mark.parametrize(
    ("given", "wait_ms"),
    [("7", "7000"), ("0.25", "250"), ("1e9", "3600000"), ("soon", None), ("-1", None), (None, None)],
)
@pytest.mark.parametrize(("status", "kind"), [(429, EngineOverloaded), (503, EngineUnavailable)])
def test_busy_server_error_has_the_retry_after_time(
    status: int, kind: type[AntiphonError], given: str | None, wait_ms: str | None
) -> None:
    found = error({"error": {"message": "secret"}}, status, given)
    assert type(found) is kind
    assert found.facts.get("retry_after_ms") == wait_ms
    assert "secret" not in found.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, EngineMisconfigured),
        (402, EngineMisconfigured),
        (403, EngineMisconfigured),
        (404, EngineMisconfigured),
        (405, EngineMisconfigured),
        (408, EngineTimeout),
        (500, EngineFault),
        (503, EngineUnavailable),
        (504, EngineTimeout),
        (529, EngineOverloaded),
    ],
)
def test_server_error_does_not_show_the_servers_message(status: int, kind: type[AntiphonError]) -> None:
    found = error({"error": {"message": "secret words"}}, status)
    assert type(found) is kind
    assert "secret" not in found.message


@pytest.mark.parametrize("told", [{"error": {"message": "secret words"}}, {"error": {"code": 404}}])
def test_error_that_an_operator_has_to_correct_is_logged_with_a_remedy(
    told: object, caplog: pytest.LogCaptureFixture
) -> None:
    found = error(told, status=404)
    assert found.message.endswith("Only an operator of this service can correct that.")
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert getattr(line, REMEDY).startswith("Compare the endpoint")
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        ('No.\nTraceback (most recent call last):\n  File "/app/x.py", line 1\nKeyError', "No."),
        ('No.\n  File "/app/x.py", line 1, in f', "No."),
        ("Traceback (most recent call last): boom", "it gives no reason."),
        ("See http://10.0.0.1:9/docs now", "See [...] now"),
        ("from 10.1.2.3:8000 and [fe80::1]:80", "from [...] and [...]"),
        ("at vllm.internal:8000, on vllm.internal", "at [...], on [...]"),
        ("worker.pod.svc:50051 said no", "[...] said no"),
        ("in /usr/lib/python3/site.py at 0x7f00deadbeef", "in [...] at [...]"),
        ("Use a/b or 1/2; </think> is 3.5: 12:30", "Use a/b or 1/2; </think> is 3.5: 12:30"),
        ("", "it gives no reason."),
    ],
)
def test_addresses_paths_and_traces_are_removed_from_the_reason(reason: str, left: str) -> None:
    assert chat_errors.readable(reason, URL) == left


def test_host_name_inside_a_word_is_kept() -> None:
    found = chat_errors.readable("nim: the minimum is 1, says nim:8000 at nim.default", "http://nim:8000/v1")
    assert found == "[...]: the minimum is 1, says [...] at [...].default"


def test_a_long_reason_is_cut() -> None:
    assert len(chat_errors.readable("no " * 1_000, URL)) == chat_errors.REASON_CHARS_MAX + 3


@pytest.mark.parametrize("run", ["x", "a.", "\n", "[:", "[a::", "-", "0x", "/a"])
def test_long_text_in_an_error_is_read_in_milliseconds(run: str) -> None:
    """A server that repeats the prompt in its error: a text of 2**20 characters took an hour."""
    began_s = thread_time()
    error({"error": {"message": run * (2**20 // len(run)), "code": 400}})
    assert thread_time() - began_s < 0.5


def test_address_in_a_row_of_words_is_removed() -> None:
    found = chat_errors.readable("1http://a.b/c (a-b.c:80) ..nim.default:8000, [::1] and [fe80::1]:80", URL)
    assert found == "[...] ([...]) [...], [...] and [...]"


@pytest.mark.parametrize(
    ("body", "told"), [(b'{"a": 1}', {"a": 1}), (b"\xffno", "\ufffdno"), (b'[{"a": 1}]', {"a": 1})]
)
def test_body_without_json_is_read_as_text(body: bytes, told: Any) -> None:
    assert chat_errors.parse_error(body) == told


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        (b"<html>\n<h1>Bad gateway</h1> at 10.0.0.7:80", "'<html> <h1>Bad gateway</h1> at [...]'"),
        (b'{"id": "secret", "model": "secret"}', "an object with id, model"),
        (b"{}", "an object with no members"),
        (b"\xff\x00a", "'\ufffd\\x00a'"),
    ],
)
def test_the_beginning_of_an_unexpected_body_has_no_address_and_no_values(body: bytes, begins: str) -> None:
    assert chat_errors.beginning(body, URL) == begins


def test_the_beginning_of_a_long_body_is_cut() -> None:
    assert len(chat_errors.beginning(b"a" * 10_000, URL)) == chat_errors.BEGINNING_CHARS_MAX + 2


def test_grammar_that_cannot_be_parsed_is_an_error_of_text_format() -> None:
    assert error({"error": {"message": "failed to parse grammar", "code": 400}}).field == "text.format"
