"""`antiphon up --openai URL`: a chat server behind Antiphon with nothing but its address."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from tests.support.fake_chat import MODEL, delta, ending, fake_chat
from tests.support.http import Http
from tests.support.in_a_thread import in_a_thread
from tests.support.system import up


async def test_a_chat_server_needs_nothing_but_its_url(tmp_path: Path) -> None:
    with in_a_thread(fake_chat()) as fake:
        fake.script = [delta(content="Paris."), *ending()]
        with up(tmp_path / "data", "--openai", fake.endpoint) as system:
            assert system.model == MODEL
            async with aiohttp.ClientSession() as session:
                http = Http(session, system.url)
                first = (await http.create(model=MODEL, input="What is the capital of France?")).json
                second = (await http.create(model=MODEL, input="Sure?", previous_response_id=first["id"])).json
                (listed,) = (await http.get("/v1/models")).json["data"]
    assert second["output"][0]["content"][0]["text"] == "Paris."
    assert [message["content"] for message in fake.requests[1]["messages"]] == [
        "What is the capital of France?",
        "Paris.",
        "Sure?",
    ]
    assert second["usage"]["total_tokens"] == 13
    assert (listed["id"], listed["max_model_len"]) == (MODEL, None)
