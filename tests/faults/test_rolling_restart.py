"""A fleet under load is replaced process by process: no stream is cut, and no job is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI

from tests.support.patience import PATIENCE_S
from tests.support.replicas import SIZES, Replicas, fleet
from tests.support.storytelling import StorytellingTriton, story, storytelling_triton

WORDS = 10
STREAMS, JOBS = 50, 20


@pytest.fixture
async def triton() -> AsyncIterator[StorytellingTriton]:
    async with storytelling_triton(WORDS) as running:
        yield running


@pytest.fixture
async def replicas(triton: StorytellingTriton, tmp_path: Path) -> AsyncIterator[Replicas]:
    async with fleet(tmp_path, triton.endpoint) as running:
        yield running


@pytest.fixture
async def client(replicas: Replicas) -> AsyncIterator[AsyncOpenAI]:
    """The SDK as it comes, with its own retries."""
    async with AsyncOpenAI(base_url=f"{replicas.url}/v1", api_key="none") as made:
        yield made


async def streamed(client: AsyncOpenAI, said: str, previous_id: str | None) -> str:
    """One turn of a caller who streams, whole; its id."""
    stream = await client.responses.create(
        model="m", input=said, stream=True, previous_response_id=previous_id or openai.omit
    )
    log = [event async for event in stream]
    assert [event.sequence_number for event in log] == list(range(len(log)))
    last = log[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == story(WORDS)
    assert "".join(event.delta for event in log if event.type == "response.output_text.delta") == story(WORDS)
    return last.response.id


async def done(client: AsyncOpenAI, said: str) -> None:
    """One response in the background, to its end."""
    job = await client.responses.create(model="m", input=said, background=True)
    async with asyncio.timeout(2 * PATIENCE_S):
        while job.status in ("queued", "in_progress"):
            await asyncio.sleep(0.2)
            job = await client.responses.retrieve(job.id)
    assert (job.status, job.output_text) == ("completed", story(WORDS))


async def streams(client: AsyncOpenAI, number: int, is_over: asyncio.Event) -> int:
    """Streams one turn after the other, every second one as a continuation; how many."""
    count, previous_id = 0, None
    while not is_over.is_set():
        previous_id = await streamed(client, f"stream {number}.{count}", previous_id if count % 2 else None)
        count += 1
    return count


async def jobs(client: AsyncOpenAI, number: int, is_over: asyncio.Event) -> int:
    count = 0
    while not is_over.is_set():
        await done(client, f"job {number}.{count}")
        count += 1
    return count


class Load:
    """Callers who stream and callers who wait for jobs, one turn after the other, until it is over."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self._is_over = asyncio.Event()
        self._working = [asyncio.create_task(streams(client, number, self._is_over)) for number in range(STREAMS)]
        self._working += [asyncio.create_task(jobs(client, number, self._is_over)) for number in range(JOBS)]

    async def end(self) -> int:
        """Waits for the last turns; how many there were. Each caller had one at least, and none failed."""
        self._is_over.set()
        ended = await asyncio.gather(*self._working, return_exceptions=True)
        faults = Counter(repr(each) for each in ended if isinstance(each, BaseException))
        assert not faults
        counts = [each for each in ended if isinstance(each, int)]
        assert min(counts) > 0
        return sum(counts)


def require_each_once(triton: StorytellingTriton, turns: int) -> None:
    """No turn was begun twice: what was interrupted went on behind its last token."""
    assert set(triton.began_anew().values()) == {1}
    assert len(triton.began_anew()) == turns


async def test_a_rolling_restart_cuts_no_stream_and_doubles_no_job(
    replicas: Replicas, triton: StorytellingTriton, client: AsyncOpenAI
) -> None:
    triton.pause_s = 0.07
    load = Load(client)
    async with asyncio.timeout(4 * PATIENCE_S):
        for target in SIZES:
            await replicas.roll(target)
    require_each_once(triton, await load.end())


async def test_a_restart_of_the_only_store_fails_no_request(
    replicas: Replicas, triton: StorytellingTriton, client: AsyncOpenAI
) -> None:
    triton.pause_s = 0.07
    load = Load(client)
    async with asyncio.timeout(4 * PATIENCE_S):
        await replicas.restart("store-0")
    require_each_once(triton, await load.end())
