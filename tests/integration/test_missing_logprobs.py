"""Over HTTP, with a chat server that accepts the request for log probabilities and sends none: the answer is
delivered."""

from __future__ import annotations

from openai import AsyncOpenAI

from tests.support.fake_chat import delta, ending
from tests.support.templated_system import by_chat


async def test_an_answer_without_requested_log_probabilities_is_delivered() -> None:
    async with by_chat("Qwen3.5-4B") as system:
        system.server.script = [delta(content="Hello"), delta(content=" there."), *ending()]
        async with AsyncOpenAI(base_url=f"{system.http.url}/v1", api_key="none", max_retries=0) as sdk:
            response = await sdk.responses.create(model="m", input="Hi", include=["message.output_text.logprobs"])
    assert (response.status, response.output_text) == ("completed", "Hello there.")
    (message,) = response.output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    assert part.logprobs == []
