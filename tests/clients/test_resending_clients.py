"""Sends the requests of Codex, Open WebUI and LibreChat, which keep chats and resend the whole chat with every turn."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from antiphon_core.jsons import Object
from antiphon_core.telemetry import metrics
from tests.support.client_models import MODELS, SEER, played_models
from tests.support.howto import blocks
from tests.support.http import Http
from tests.support.images import data_url, png
from tests.support.in_a_thread import in_a_thread
from tests.support.resending_clients import CLIENTS, Client, Turn, ask

PARIS, ROME = "The capital of France is Paris.", "The capital of Italy is Rome."


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_a_thread(played_models()) as url:
        yield url


@pytest.fixture
async def http(url: str) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        yield Http(session, url)


@pytest.fixture(params=list(CLIENTS.values()), ids=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.mark.parametrize("model", MODELS)
async def test_a_chat_with_a_tool_call_continues_from_resent_history(http: Http, client: Client, model: str) -> None:
    turns: list[Turn] = []
    assert await ask(http, client, model, turns, "What is the capital of France?") == PARIS
    assert await ask(http, client, model, turns, "What is the weather in Paris?") == "It is sunny in Paris."
    assert await ask(http, client, model, turns, "And of Italy?") == ROME
    assert len([item for item in turns[1].written if client.call_id([item])]) == 1


@pytest.mark.parametrize("model", MODELS)
async def test_every_request_that_resends_a_chat_is_found_to_continue_its_last_turn(
    http: Http, client: Client, model: str
) -> None:
    before = _searches()
    turns: list[Turn] = []
    for said in ("What is the capital of France?", "What is the weather in Paris?", "And of Italy?") * 2:
        await ask(http, client, model, turns, said)
    calls = [item for turn in turns for item in turn.written if client.call_id([item])]
    after = _searches()
    found = {outcome: after[outcome] - before[outcome] for outcome in after}
    assert found == {"found": len(turns) + len(calls) - 1, "absent": 0, "failed": 0}
    assert len(calls) == 2


def _searches() -> dict[str, float]:
    return {each: metrics.RECOVERED_LINEAGES.of(each).value for each in ("found", "absent", "failed")}


async def test_an_image_in_a_chat_reaches_the_model(http: Http, client: Client) -> None:
    said = [
        {"type": "text", "text": "What do you see?"},
        {"type": "image_url", "image_url": {"url": data_url(png(32, 32))}},
    ]
    assert await ask(http, client, SEER, [], said) == "I see 1 image(s)."


async def test_a_title_request_without_streaming_is_answered(http: Http) -> None:
    said = "### Task:\nGenerate a concise title."
    chat: Object = {"model": "qwen3", "messages": [{"role": "user", "content": said}], "stream": False}
    titled = await http.post("/v1/chat/completions", chat | {"max_tokens": 1_000})
    assert titled.json["choices"][0]["message"]["content"]
    parts = [{"type": "input_text", "text": said}]
    items = [{"type": "message", "role": "user", "content": parts}]
    response = await http.create(model="qwen3", input=items, stream=False, max_output_tokens=1_000)
    assert response.json["status"] == "completed"


@pytest.mark.parametrize("shape", ["Open WebUI", "LibreChat"])
async def test_a_chat_continues_after_a_response_with_store_false(http: Http, shape: str) -> None:
    client, turns = CLIENTS[shape], [Turn("What is the capital of France?", [])]
    request = client.request("qwen3", turns) | {"store": False}
    turns[0].written += client.written(await http.post(client.path, request))
    assert await ask(http, client, "qwen3", turns, "And of Italy?") == ROME


@pytest.mark.parametrize("page", ["open-webui", "librechat"])
def test_clients_request_paths_below_the_documented_base_url(page: str) -> None:
    (configuration,) = blocks(Path(__file__).parents[2] / f"docs/howto/use-with-{page}.md")
    (path,) = re.findall(r"http://127.0.0.1:8000(/\w+)", configuration.text)
    assert all(client.path.startswith(f"{path}/") for client in CLIENTS.values())


async def test_the_model_list_has_all_served_models(http: Http) -> None:
    listed = await http.ask("GET", "/v1/models", headers={"Authorization": "Bearer none"})
    assert {*MODELS, SEER} <= {model["id"] for model in listed.json["data"]}
