"""Over HTTP, with a chat server: the server gets the cache key of a request, and the client its cached tokens."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.support.fake_chat import USAGE, delta, event
from tests.support.templated_system import by_chat

CACHED = event({"choices": [], "usage": USAGE | {"prompt_tokens_details": {"cached_tokens": 3}}})


@pytest.mark.parametrize(("hints", "told"), [("openai", "k"), ("none", None)])
async def test_the_cache_key_is_sent_only_to_servers_that_take_hints(hints: Any, told: str | None) -> None:
    async with by_chat("Qwen3.5-4B", cache_hints=hints) as system:
        ending = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        system.server.script = [delta(content="Hello"), ending, CACHED, b"data: [DONE]\n\n"]
        async with AsyncOpenAI(base_url=f"{system.http.url}/v1", api_key="none", max_retries=0) as sdk:
            response = await sdk.responses.create(model="m", input="Hi", prompt_cache_key="k")
        assert system.server.requests[-1].get("prompt_cache_key") == told
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 3
