"""Chat completions with the official OpenAI SDK for Python, unmodified."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from tests.support.scripted_answers import LINE
from tests.support.scripted_system import MODEL, scripted_system_in_a_thread

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"location": {"type": "string"}},
                "required": ["location"],
                "additionalProperties": False,
            },
        },
    }
]
ARGUMENTS = '{"location":"San Francisco, CA"}'


class Place(BaseModel):
    city: str


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with scripted_system_in_a_thread() as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        yield client


def test_create_returns_text_usage_and_request_id(client: OpenAI) -> None:
    made = client.chat.completions.create(model=MODEL, messages=HI)
    assert made.choices[0].message.content == LINE
    assert made.choices[0].finish_reason == "stop"
    assert made.usage is not None
    assert made.usage.prompt_tokens_details is not None
    assert made._request_id is not None


def test_a_stream_with_include_usage_ends_with_usage(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True})
    )
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == LINE
    assert chunks[-1].usage is not None


def test_the_stream_helper_assembles_function_calls(client: OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=HI, tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    (call,) = final.choices[0].message.tool_calls or []
    assert (call.function.name, call.function.arguments) == ("get_weather", ARGUMENTS)
    assert final.choices[0].finish_reason == "tool_calls"


def test_a_tool_result_reaches_the_model(client: OpenAI) -> None:
    message = client.chat.completions.create(model=MODEL, messages=HI, tools=TOOLS).choices[0].message
    (call,) = message.tool_calls or []
    said: list[ChatCompletionMessageParam] = [
        *HI,
        message.to_dict(),  # type: ignore[list-item] # as users write it
        {"role": "tool", "tool_call_id": call.id, "content": "Sunny."},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=said, tools=TOOLS)
    assert answer.choices[0].message.content == "I was told: Sunny."


def test_parse_returns_the_pydantic_model(client: OpenAI) -> None:
    made = client.chat.completions.parse(model=MODEL, messages=HI, response_format=Place)
    assert made.choices[0].message.parsed == Place(city="Rome")


def test_errors_are_the_sdks_own_classes(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=HI, n=2)
    assert (caught.value.param, caught.value.code) == ("n", "unsupported_value")
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nobody", messages=HI)
    broken = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Fail."}], stream=True)
    with pytest.raises(openai.APIError, match="The script says to fail"):
        list(broken)
