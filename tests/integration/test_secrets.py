"""User content and credentials appear in no log and in no error. Canaries in the requests would show a leak."""

from __future__ import annotations

import gzip
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon.logs import LogSettings, configure
from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.jsons import Object, dumps
from antiphon_translator.engines.scripted import Break, Emit, ScriptedEngine
from tests.support.api_keys import KeyFiles, bearer
from tests.support.http import Answer, Http
from tests.support.in_process import running
from tests.support.raw_http import exchange, head, post
from tests.support.served_models import END_ID, model, tokenizer

PROMPT, ARGUMENT, HEADER, METADATA = (
    "canary-prompt-7f3a",
    "canary-argument-7f3a",
    "canary-header-7f3a",
    "canary-meta-7f3a",
)
GUESS = "ak_0123456789ab_" + "c4a2" * 16
SAYS_HELLO = [Emit([*tokenizer().encode("Hello."), END_ID])]
CALL: list[Object] = [
    {"role": "user", "content": PROMPT},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": dumps({"at": ARGUMENT}).decode()},
    {"type": "function_call_output", "call_id": "call_1", "output": ARGUMENT},
]


@dataclass
class World:
    url: str
    engine: ScriptedEngine
    secret: str


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    files = KeyFiles(tmp_path)
    secret = files.make("acme")
    engine = ScriptedEngine(SAYS_HELLO)
    async with running((model(), engine), **files.settings) as system:
        yield World(system.url, engine, secret)


GOOD: tuple[Object, ...] = (
    {"input": PROMPT},
    {"input": CALL},
    {"input": PROMPT, "stream": True},
    {"input": PROMPT, "metadata": {"a": METADATA}, "instructions": PROMPT, "user": METADATA},
    {"input": PROMPT, "store": False, "include": ["reasoning.encrypted_content"]},
)
BAD: tuple[Object, ...] = (
    {"input": PROMPT, "temperature": "warm"},
    {"input": PROMPT, "no_such_parameter": ARGUMENT},
    {"input": PROMPT, "tools": [{"type": "function", "name": 7, "parameters": {"a": ARGUMENT}}]},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": [PROMPT]}]}]},
    {"input": [{"type": "function_call_output", "call_id": "call_9", "output": ARGUMENT}]},
    {"input": [{"role": "user", "content": PROMPT}, {"type": "function_call", "name": "f", "arguments": ARGUMENT}]},
    {"input": [{"type": "reasoning", "encrypted_content": ARGUMENT, "summary": []}]},
    {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64," + PROMPT}]}]},
    {
        "input": PROMPT,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": 7, "title": ARGUMENT}}},
    },
    {"input": PROMPT, "previous_response_id": "resp_" + 48 * "0"},
    {"input": PROMPT * 4000},
)
FAULTS: tuple[Any, ...] = (
    EngineFault("The engine failed."),
    EngineUnavailable("The engine is gone."),
    RuntimeError("a bug"),
)


WRITTEN = b'{"model": "m", "input": "%s"}' % PROMPT.encode()
KEY = b"Authorization: Bearer " + GUESS.encode()
CHUNKED = b"Transfer-Encoding: chunked"
MALFORMED: tuple[tuple[bytes, bytes], ...] = (
    # the request, and the part that is sent only after 100 Continue
    (head(b"BREW /v1/responses?" + PROMPT.encode(), KEY), b""),
    (b"\x16\x03\x01\x02\x00\x01" + PROMPT.encode(), b""),
    (head(PROMPT.encode(), KEY), b""),
    (head(b"GET /v1/models?a=" + PROMPT.encode() + b"\x01", KEY), b""),
    (head(b"GET /v1/models?a=" + PROMPT.encode() + b"a" * 100_000, KEY), b""),
    (head(b"CONNECT " + PROMPT.encode() + b":1:2", KEY), b""),
    (post(WRITTEN, KEY + b"\x01"), b""),
    (post(WRITTEN, KEY + b"\x00"), b""),
    (post(WRITTEN, KEY, KEY + b"a" * 100_000), b""),
    (post(WRITTEN, *[b"x-note: " + HEADER.encode()] * 200), b""),
    (post(WRITTEN, HEADER.encode()), b""),
    (post(WRITTEN, b"Content-Length: " + HEADER.encode()), b""),
    (post(WRITTEN, b"Host: " + HEADER.encode()), b""),
    (post(WRITTEN, KEY, b"Expect: " + HEADER.encode()), b""),
    (post(WRITTEN, KEY, b"Content-Encoding: br"), b""),
    (post(WRITTEN, KEY, b"Content-Encoding: " + HEADER.encode()), b""),
    (post(WRITTEN, KEY, b"Content-Encoding: gzip"), b""),
    (post(gzip.compress(WRITTEN) + WRITTEN, KEY, b"Content-Encoding: gzip"), b""),
    (head(b"POST /v1/responses", KEY, CHUNKED) + WRITTEN, b""),
    (head(b"POST /v1/responses", KEY, CHUNKED, b"Expect: 100-continue"), WRITTEN + b"\r\n"),
)


async def test_logs_and_errors_contain_no_content_and_no_credentials(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configure(LogSettings(level="DEBUG", json=True))
    try:
        errors = await collect_errors(world)
    finally:
        logging.basicConfig(level=level, handlers=handlers, force=True)
    written = "".join(capfd.readouterr())
    assert "RuntimeError: a bug" in written
    secrets = (PROMPT, ARGUMENT, HEADER, METADATA, GUESS, GUESS.rsplit("_", 1)[1], world.secret.rsplit("_", 1)[1])
    assert [line for each in secrets for line in lines_with(each, written, errors)] == []


def lines_with(secret: str, written: str, errors: list[str]) -> list[str]:
    """The lines and answers that contain the secret."""
    return [line for line in (*written.splitlines(), *errors) if secret in line]


async def collect_errors(world: World) -> list[str]:
    """Sends requests that succeed, that are rejected and that fail. Returns the errors."""
    answers: list[Answer] = []
    async with aiohttp.ClientSession(headers=bearer(world.secret) | {"x-note": HEADER, "cookie": HEADER}) as session:
        http = Http(session, world.url)
        for body in GOOD:
            assert (await ask(http, body)).status == 200
        for body in BAD:
            answers.append(await ask(http, body))
            assert answers[-1].status in (400, 404), body
        answers.append(await http.post("/v1/responses", b'{"model": "m", "input": "' + PROMPT.encode()))
        answers.append(await http.post("/v1/conversations", {"items": PROMPT}))
        for fault in FAULTS:
            world.engine.script = [Break(fault)]
            answers += [await ask(http, {"input": CALL}), await ask(http, {"input": CALL, "stream": True})]
    async with aiohttp.ClientSession(headers=bearer(GUESS) | {"x-note": HEADER}) as session:
        answers.append(await ask(Http(session, world.url), {"input": PROMPT}))
        assert answers[-1].status == 401
    return [error_of(answer) for answer in answers] + await malformed(world)


async def malformed(world: World) -> list[str]:
    """Sends malformed requests with a known key and with an unknown one, and returns all answers."""
    answers: list[str] = []
    for request, behind in MALFORMED:
        for key in (GUESS, world.secret):
            sent = request.replace(GUESS.encode(), key.encode())
            answer = await exchange(world.url, sent, after_continue=behind)
            assert 400 <= answer.status < 500
            answers.append(f"{answer.headers} {answer.body.decode()}")
    url = world.url + "/v1/responses"
    protocols = ("realtime", f"openai-insecure-api-key.{world.secret}", PROMPT)
    async with (
        aiohttp.ClientSession(headers=bearer(world.secret)) as session,
        session.ws_connect(url, protocols=protocols) as socket,
    ):
        answers.append(str(socket._response.headers))
    return answers


async def ask(http: Http, body: Object) -> Answer:
    return await http.create(model="m", **body)


def error_of(answer: Answer) -> str:
    """The error of an answer. A failed stream has the error in its last two events."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return answer.body.decode()
    failed: Any = answer.events[-1]["response"]["error"]
    return str(failed) + str(answer.events[-2])
