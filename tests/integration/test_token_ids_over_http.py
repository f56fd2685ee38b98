"""Antiphon with servers of token ids over HTTP, such as NIM and vLLM: usage is exact, and a stream that its server
loses or aborts resumes behind its last token on another server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.engines import registry
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.models import profiles, served_model
from tests.support.fake_generate import FakeGenerate, fake_generate
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.served_models import END_ID, tokenizer, write_directory

STORY = "The capital of France is Paris, which lies on the Seine."
ADAPTER = "pirate"


@dataclass
class Storyteller:
    """A model that continues the first prompt that it reads with its story."""

    ids: Sequence[int]
    begin: int = 0

    def next_id(self, ids: Sequence[int]) -> int:
        self.begin = self.begin or len(ids)
        return self.ids[len(ids) - self.begin]


@dataclass(frozen=True)
class System:
    """One model on two servers. Requests go to the first server first."""

    http: Http
    first: FakeGenerate
    second: FakeGenerate
    ids: Sequence[int]

    async def answer(self) -> Object:
        answer: Object = (await self.http.create(model="m", input="Tell me.", temperature=0)).json
        return answer


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    ids = [*tokenizer().encode(STORY), END_ID]
    model = Storyteller(ids)
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(fake_generate()) for _ in range(2)]
        for fake in (first, second):
            fake.compute(model.next_id)
            fake.adapters = [ADAPTER]
        given = {"name": "m", "engine": "vllm_tokens", "directory": str(write_directory(tmp_path / "model"))}
        given |= {"chat_model": "m", "lora": ADAPTER}
        profile = profiles.from_values(given | {"endpoints": [first.endpoint, second.endpoint]})
        engine = registry.create(profile, TritonChannels())
        system = await stack.enter_async_context(running((served_model.load(profile), engine)))
        yield System(system.http, first, second, ids)


def text_of(answer: Object) -> str:
    (message,) = answer["output"]
    return str(message["content"][0]["text"])


def assert_exact(system: System, usage: dict[str, Any], prompt_ids: Sequence[int]) -> None:
    assert (usage["input_tokens"], usage["output_tokens"]) == (len(prompt_ids), len(system.ids))


@pytest.mark.parametrize(("cached", "shown"), [(3, 3), (0, 0), (None, None), (10**6, 10**6)])
async def test_cached_tokens_of_the_server_are_in_the_usage(
    system: System, cached: int | None, shown: int | None
) -> None:
    system.first.cached = cached
    usage = (await system.answer())["usage"]
    read = min(shown or 0, usage["input_tokens"])
    written = 0 if shown is None else usage["input_tokens"] - read
    assert usage["input_tokens_details"] == {"cached_tokens": read, "cache_write_tokens": written}


async def test_usage_is_the_count_of_the_ids_sent_and_received(system: System) -> None:
    answer = await system.answer()
    assert (answer["status"], text_of(answer)) == ("completed", STORY)
    (asked,) = system.first.requests
    assert_exact(system, answer["usage"], asked["token_ids"])
    assert END_ID in asked["sampling_params"]["stop_token_ids"]


async def test_the_lora_adapter_of_the_profile_is_requested(system: System) -> None:
    await system.answer()
    (asked,) = system.first.requests
    assert asked["model"] == ADAPTER


@pytest.mark.parametrize("end", ["lost_after", "aborted_after"])
async def test_a_lost_or_aborted_stream_resumes_on_another_server(system: System, end: str) -> None:
    setattr(system.first, end, 5)
    answer = await system.answer()
    assert (answer["status"], text_of(answer)) == ("completed", STORY)
    (asked,), (resumed,) = system.first.requests, system.second.requests
    assert resumed["token_ids"] == [*asked["token_ids"], *system.ids[:5]]
    assert resumed["sampling_params"]["max_tokens"] == asked["sampling_params"]["max_tokens"] - 5
    assert_exact(system, answer["usage"], asked["token_ids"])
