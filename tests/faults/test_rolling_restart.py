"""A fleet under load loses its processes, by SIGTERM and by kill -9, and clients with the OpenAI SDK do not notice."""

from __future__ import annotations

import asyncio
import runpy
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import Any, TypeVar

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response

from antiphon_core.errors import LogNotFound
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_store.client import StoreClient
from tests.support.fixed_text_model import FixedTextTriton, fixed_text, fixed_text_triton
from tests.support.howto import blocks
from tests.support.replicas import LEASED_S, SIZES, Replicas, fleet
from tests.support.volume import volume
from tests.support.waiting import WAIT_MAX_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECIPE = Path(__file__).parents[2] / "docs/howto/resume-a-stream.md"
DELTA = "response.output_text.delta"
WORDS = 10
STREAMS, JOBS = volume((6, 4), (50, 20))
WORKER_OPTIONS: list[str] = volume(["--worker-slots=1"], [])
"""Two workers run fewer jobs at once than there are: some wait in the queue."""
REQUESTS = volume(80, 20_000)

_Answer = TypeVar("_Answer")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet_of_triton(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Replicas, FixedTextTriton]]:
    async with (
        fixed_text_triton(WORDS) as triton,
        fleet(tmp_path_factory.mktemp("fleet"), triton.endpoint, worker_options=WORKER_OPTIONS) as replicas,
    ):
        yield replicas, triton


@pytest_asyncio.fixture(loop_scope="module")
async def replicas(fleet_of_triton: tuple[Replicas, FixedTextTriton]) -> Replicas:
    """The fleet with all processes running."""
    replicas = fleet_of_triton[0]
    await replicas.start(*replicas.dead())
    return replicas


@pytest.fixture
def triton(fleet_of_triton: tuple[Replicas, FixedTextTriton]) -> FixedTextTriton:
    triton = fleet_of_triton[1]
    triton.starts.clear()
    triton.pause_s = 0.12
    return triton


@pytest_asyncio.fixture(loop_scope="module")
async def client(replicas: Replicas) -> AsyncIterator[AsyncOpenAI]:
    """The SDK with its default retries."""
    async with AsyncOpenAI(base_url=f"{replicas.url}/v1", api_key="none") as made:
        yield made


async def answered(ask: Callable[[str], Awaitable[_Answer]]) -> _Answer:
    """Retries while an edge reports that the store does not answer: a store on a busy machine may get no processor for
    a second. It may have stored the request all the same. So each attempt has a text of its own to add to its input:
    the job of the first one is another turn, and not one that began twice."""
    async with asyncio.timeout(WAIT_MAX_S):
        for attempt in numbers():
            try:
                return await ask(f", attempt {attempt}" if attempt else "")
            except openai.InternalServerError as error:
                if "does not answer" not in error.message:
                    raise
    raise AssertionError("not reached")


async def streamed(client: AsyncOpenAI, said: str, previous_id: str | None) -> str:
    """Streams one turn, requires it whole, and returns its id."""
    stream = await answered(
        lambda attempt: client.responses.create(
            model="m", input=said + attempt, stream=True, previous_response_id=previous_id or openai.omit
        )
    )
    log = [event async for event in stream]
    assert [event.sequence_number for event in log] == list(range(len(log)))
    last = log[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == fixed_text(WORDS)
    assert "".join(event.delta for event in log if event.type == "response.output_text.delta") == fixed_text(WORDS)
    return last.response.id


async def stream_turns(client: AsyncOpenAI, name: str, is_over: asyncio.Event) -> int:
    """Streams one turn after the other, every second one as a continuation. Returns the number of turns."""
    count, previous_id = 0, None
    while not is_over.is_set():
        previous_id = await streamed(client, f"stream {name}.{count}", previous_id if count % 2 else None)
        count += 1
    return count


async def begin_job(client: AsyncOpenAI, said: str, attempt: str) -> Response:
    return await client.responses.create(model="m", input=said + attempt, background=True)


async def read_job(client: AsyncOpenAI, response_id: str, _: str) -> Response:
    return await client.responses.retrieve(response_id)


async def run_jobs(client: AsyncOpenAI, name: str, is_over: asyncio.Event) -> int:
    """Runs one background response after the other. Returns the number of responses."""
    count = 0
    while not is_over.is_set():
        job = await answered(partial(begin_job, client, f"job {name}.{count}"))
        async with asyncio.timeout(2 * WAIT_MAX_S):
            while job.status in ("queued", "in_progress"):
                await asyncio.sleep(0.5)
                job = await answered(partial(read_job, client, job.id))
        assert (job.status, job.output_text) == ("completed", fixed_text(WORDS))
        count += 1
    return count


class Load:
    """Clients that stream and clients that wait for jobs, until `end` is called."""

    def __init__(self, client: AsyncOpenAI, name: str) -> None:
        self._is_over = asyncio.Event()
        self._working = [
            *self._begin(STREAMS, lambda number: stream_turns(client, f"{name}.{number}", self._is_over)),
            *self._begin(JOBS, lambda number: run_jobs(client, f"{name}.{number}", self._is_over)),
        ]

    async def end(self) -> int:
        """Waits for the last turns, and returns the number of all turns. Each client has at least one, and none
        failed."""
        self._is_over.set()
        ended = await asyncio.gather(*self._working, return_exceptions=True)
        assert not Counter(repr(each) for each in ended if isinstance(each, BaseException))
        counts = [each for each in ended if isinstance(each, int)]
        assert min(counts) > 0
        return sum(counts)

    def _begin(self, size: int, work: Callable[[int], Awaitable[int]]) -> list[asyncio.Future[int]]:
        return [asyncio.ensure_future(work(number)) for number in range(size)]


def require_each_once(replicas: Replicas, triton: FixedTextTriton, turns: int, *, keeps_leases: bool = True) -> None:
    """Requires that no turn began twice: an interrupted turn resumes behind its last token. Only a job whose lease
    expired before its first tokens were stored, in a restart that took so long, begins again. A request that a client
    repeated may have left a turn besides."""
    begun = triton.began_anew()
    assert len(begun) >= turns
    assert set(begun.values()) <= {1, *(() if keeps_leases else (2,))}, replicas.logs("edge", "worker")


async def test_a_rolling_restart_cuts_no_stream_and_doubles_no_job(
    replicas: Replicas, triton: FixedTextTriton, client: AsyncOpenAI
) -> None:
    load = Load(client, "roll")
    async with asyncio.timeout(4 * WAIT_MAX_S):
        await replicas.roll()
    require_each_once(replicas, triton, await load.end())


async def test_a_restart_of_the_only_store_fails_no_request(
    replicas: Replicas, triton: FixedTextTriton, client: AsyncOpenAI
) -> None:
    """The SDK makes no retries here. On a busy machine the restart may take longer than the lease of a job."""
    impatient = client.with_options(max_retries=0)
    load = Load(impatient, "store")
    (store,) = replicas.of("store")
    conversation, is_over = (await impatient.conversations.create()).id, asyncio.Event()
    adding = asyncio.create_task(add_items(impatient, conversation, is_over))
    async with asyncio.timeout(4 * WAIT_MAX_S):
        began_s = time.monotonic()
        await replicas.restart(store)
        away_s = time.monotonic() - began_s
        is_over.set()
        added = await adding
    require_each_once(replicas, triton, await load.end(), keeps_leases=away_s < LEASED_S)
    assert [item.id async for item in client.conversations.items.list(conversation, order="asc", limit=100)] == added


async def add_items(client: AsyncOpenAI, conversation: str, is_over: asyncio.Event) -> list[str | None]:
    """Adds items one after another. Returns the ids that the answers named."""
    added: list[str | None] = []
    while not is_over.is_set():
        item: Any = {"type": "message", "role": "user", "content": f"item {len(added)}"}
        added += [each.id for each in (await client.conversations.items.create(conversation, items=[item])).data]
    return added


class Requests:
    """Many concurrent short requests, every second one a continuation of the one before."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self.acknowledged: list[str] = []
        self.faults: Counter[str] = Counter()
        self._client = client

    @property
    def count(self) -> int:
        return len(self.acknowledged) + self.faults.total()

    async def until(self, count: int) -> None:
        await until(lambda: self.count >= count, f"{count} requests")

    async def ask(self, number: int, is_over: asyncio.Event) -> None:
        previous_id = None
        while not is_over.is_set():
            try:
                response = await self._client.responses.create(
                    model="m", input=f"request {number}.{self.count}", previous_response_id=previous_id or openai.omit
                )
            except openai.APIError as error:
                self.faults[repr(error)] += 1
                previous_id = None
                continue
            assert (response.status, response.output_text) == ("completed", fixed_text(WORDS))
            self.acknowledged.append(response.id)
            previous_id = None if previous_id else response.id


async def test_kill_9_of_one_process_of_each_kind_loses_no_request(
    replicas: Replicas, triton: FixedTextTriton, client: AsyncOpenAI
) -> None:
    triton.pause_s = 0.005
    requests, is_over = Requests(client), asyncio.Event()
    asking = [asyncio.create_task(requests.ask(number, is_over)) for number in range(STREAMS)]
    working = [asyncio.create_task(run_jobs(client, f"kill.{number}", is_over)) for number in range(JOBS)]
    for kind, target in enumerate(SIZES):
        await requests.until(kind * REQUESTS // len(SIZES))
        name = replicas.of(target)[0]
        replicas.kill(name)
        await replicas.start(name)  # as a kubelet does
    await requests.until(REQUESTS)
    is_over.set()
    await asyncio.gather(*asking, *working)
    assert requests.faults.total() <= requests.count // 1_000, requests.faults
    read = await asyncio.gather(*map(client.responses.retrieve, requests.acknowledged))
    assert {response.output_text for response in read} == {fixed_text(WORDS)}


async def logged(replicas: Replicas, seen: list[Any]) -> None:
    """Waits until the event log has all events that a client has seen: another edge resumes at the end of the log."""
    response_id, last = seen[0].response.id, seen[-1].sequence_number
    (store,) = replicas.of("store")
    async with (
        asyncio.timeout(WAIT_MAX_S),
        StoreClient(f"{replicas.pods[store].host}:{replicas.ports['store']}") as client,
    ):
        end = 0
        while end <= last:
            await asyncio.sleep(0.02)
            with suppress(LogNotFound):
                async for batch in client.read_events(DEFAULT_TENANT, response_id):
                    end = batch.first_sequence + batch.count


async def test_streams_of_killed_edges_are_resumed_by_the_recipe_of_the_documents(
    replicas: Replicas, triton: FixedTextTriton, tmp_path: Path
) -> None:
    (recipe,) = blocks(RECIPE)
    (tmp_path / "recipe.py").write_text(recipe.text)
    ways = [each for name, each in runpy.run_path(str(tmp_path / "recipe.py")).items() if name.startswith("stream_")]
    triton.hold(at=5)
    with OpenAI(base_url=f"{replicas.url}/v1", api_key="none") as client:
        seen: list[list[Any]] = [[] for _ in ways]

        def read(number: int) -> None:
            for event in ways[number](client, model="m", input=f"resume {number}"):
                seen[number].append(event)

        reading = [asyncio.create_task(asyncio.to_thread(read, number)) for number in range(len(ways))]
        await until(lambda: all(log and log[-1].type == DELTA for log in seen), "deltas")
        await asyncio.gather(*(logged(replicas, log) for log in seen))
        hosts = {host for host, _ in replicas.balancer.chosen[-len(ways) :]}
        killed = [name for name in replicas.of("edge") if replicas.pods[name].host in hosts]
        for name in killed:
            replicas.kill(name)
        triton.go_on()
        await asyncio.gather(*reading)
    for log in seen:
        assert [event.sequence_number for event in log] == list(range(len(log)))
        assert log[-1].type == "response.completed"
        assert log[-1].response.output_text == fixed_text(WORDS)
    require_each_once(replicas, triton, len(ways))
