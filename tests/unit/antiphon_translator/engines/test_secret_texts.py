from __future__ import annotations

import time

import pytest

from antiphon_core.limits import ENGINE_ERROR_CHARS_MAX
from antiphon_translator.engines.secret_texts import MASK, mask_secrets

SECRETS = [
    ("Incorrect API key provided: {}.", "sk-proj-abcdef123456XYZ"),
    ("Invalid token Bearer {}", "eyJhbGciOi.JIUzI1NiJ9.abc"),
    ("api_key={}&x=1", "abcdef"),
    ("Authorization: Basic {}", "dXNlcjpwYXNz"),
    ("authorization: {}", "my-key-1"),
    ("cannot reach http://{}@10.0.0.1:80/v1", "user:pass"),
    ("redis at {}@db:6379 failed", "admin:hunter2"),
    ('{{"x-api-key": "{}"}}', "abcd1234efgh"),
    ("{} is no key of this cloud", "nvapi-AbC_dEf123456789"),
    ("key {}", "hf_abcdefghijklmnop"),
    ("token {} is expired", "0123456789abcdef0123456789abcdef"),
    ("{}", "AKIAIOSFODNN7EXAMPLE"),
    ("{}", "AIzaSyA1234567890abcdef"),
    ("password='{}'", "hunter22"),
    ("secret: {}", "swordfish"),
    ("credential {}", "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3BxcnM="),
]
PROSE = [
    "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens.",
    "Bearer token required",
    "basic authentication is not supported",
    "'temperature' must be in [0, 2]",
    "key_error in messages.0.content",
    "invalid token: <|im_start|>",
    "unexpected token: 'abc'; next token: 12345",
    "tool call id chatcmpl-tool-1234 not found",
    "request 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed",
    "password must be text",
    "response_format.json_schema.schema.properties.additionalProperties",
    "a" * 100,
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_credentials_are_masked_and_the_words_around_them_stay(text: str, secret: str) -> None:
    shown = mask_secrets(text.format(secret))
    assert secret not in shown
    assert shown.startswith(text.format(MASK).partition(MASK)[0])


@pytest.mark.parametrize("text", PROSE)
def test_prose_stays_as_it_is(text: str) -> None:
    assert mask_secrets(text) == text


@pytest.mark.parametrize(
    "piece", ["a", "sk-", "Bearer ", "token:", "a:", "A1", "://", "eyJ", "aB3-", "a:b", " a:", "a1_"]
)
def test_long_texts_are_masked_in_linear_time(piece: str) -> None:
    text = piece * (ENGINE_ERROR_CHARS_MAX // len(piece))
    before = time.thread_time()
    mask_secrets(text)
    assert time.thread_time() - before < 0.25
