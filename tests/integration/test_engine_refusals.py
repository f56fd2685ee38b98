"""Over HTTP, with a chat server that rejects requests: the client gets the reason if the request is at fault, and SDKs
retry only where a retry may help."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI, BadRequestError, InternalServerError, RateLimitError

from antiphon_core import events
from tests.support.templated_system import TemplatedSystem, by_chat

SECRETS = "http://10.0.0.7:8000/v1"
REFUSED = (
    400,
    {"object": "error", "message": f"Roles must alternate. See {SECRETS}\nTraceback (most recent call last)"},
)
TOO_LONG = (400, {"error": {"message": "This model's maximum context length is 8192 tokens.", "code": 400}})
NOT_READY = (503, {"error": {"message": "Loading.", "code": 503}})
OVERLOADED = (429, {"error": {"message": SECRETS, "code": 429}})


@pytest.fixture
async def system() -> AsyncIterator[TemplatedSystem]:
    async with by_chat("Qwen3.5-4B") as running:
        yield running


def client(system: TemplatedSystem, retries: int = 2) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{system.http.url}/v1", api_key="none", max_retries=retries)


async def test_a_request_rejected_by_the_engine_is_a_400_without_retries(system: TemplatedSystem) -> None:
    system.server.refusal = REFUSED
    async with client(system) as asking:
        with pytest.raises(BadRequestError, match="Roles must alternate. See") as caught:
            await asking.responses.create(model="m", input="Hi")
    assert caught.value.code == "engine_refused"
    assert len(system.server.requests) == 1
    for secret in ("10.0.0.7", "Traceback", system.server.endpoint):
        assert secret not in str(caught.value.body)


async def test_a_too_long_prompt_is_a_400_with_context_length_exceeded(system: TemplatedSystem) -> None:
    system.server.refusal = TOO_LONG
    answer = await system.http.create(model="m", input="Hi")
    assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    told = (await system.http.create(model="m", input="Hi", stream=True)).events
    assert [event["type"] for event in told[-2:]] == [events.ERROR, events.FAILED]
    assert told[-1]["response"]["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_server_that_an_operator_has_to_correct_is_a_502_without_retries(
    system: TemplatedSystem, status: int
) -> None:
    assert (await system.http.create(model="m", input="Hi")).status == 200
    system.server.refusal = (status, {"error": {"message": SECRETS, "code": status}})
    async with client(system) as asking:
        with pytest.raises(InternalServerError, match="Only an operator of this service can correct that") as caught:
            await asking.responses.create(model="m", input="Hi")
    assert (caught.value.status_code, caught.value.code) == (502, "engine_misconfigured")
    assert "10.0.0.7" not in str(caught.value.body)
    assert len(system.server.requests) == 2


async def test_an_overloaded_engine_is_a_429_with_its_retry_after(system: TemplatedSystem) -> None:
    system.server.refusal, system.server.retry_after = OVERLOADED, "7"
    async with client(system, retries=0) as asking:
        with pytest.raises(RateLimitError) as caught:
            await asking.responses.create(model="m", input="Hi")
    headers = caught.value.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("7", "7000")
    assert headers["x-should-retry"] == "true"
    assert "10.0.0.7" not in str(caught.value.body)


@pytest.mark.parametrize("seconds", ["7", "9"])
async def test_an_engine_that_is_not_ready_is_a_503_with_its_retry_after(system: TemplatedSystem, seconds: str) -> None:
    assert (await system.http.create(model="m", input="Hi")).status == 200
    system.server.refusal, system.server.retry_after = NOT_READY, seconds
    async with client(system, retries=0) as asking:
        with pytest.raises(InternalServerError) as caught:
            await asking.responses.create(model="m", input="Hi")
    assert caught.value.status_code == 503
    assert caught.value.response.headers["retry-after"] == seconds


async def test_a_rejected_request_leaves_the_engine_ready(system: TemplatedSystem) -> None:
    system.server.refusal = REFUSED
    await system.http.create(model="m", input="Hi")
    calls = system.server.model_calls
    system.server.refusal = None
    assert (await system.http.create(model="m", input="Hi")).status == 200
    assert system.server.model_calls == calls
