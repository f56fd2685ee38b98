"""`antiphon serve --workers 2`: several processes that are one service."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest
import pytest_asyncio

from antiphon_core import events
from tests.support.fixed_text_model import FixedTextTriton, fixed_text, fixed_text_triton
from tests.support.http import Http, RetryingHttp
from tests.support.served_models import write_profile
from tests.support.system import Command
from tests.support.waiting import WAIT_MAX_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = 30
WORKERS = 2
LONELY_EDGE = ("--target=edge", "--edge-store=h:1", "--edge-translator=h:1")
CONNECTIONS = 40  # all reach the same worker once in 2**39 runs


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def storyteller() -> AsyncIterator[FixedTextTriton]:
    async with fixed_text_triton(WORDS) as running:
        yield running


@pytest.fixture
def triton(storyteller: FixedTextTriton) -> FixedTextTriton:
    storyteller.go_on()
    return storyteller


@contextmanager
def serving(*options: str) -> Iterator[Command]:
    """A command that may not be ready yet."""
    command = Command("serve", f"--workers={WORKERS}", *options)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.kill()  # its workers end with it


@asynccontextmanager
async def serving_all(folder: Path, triton: FixedTextTriton, *more: str) -> AsyncIterator[Command]:
    """All targets over one SQLite file, ready."""
    options = (
        *("--target=all", "--edge-port=0", "--store-port=0", "--translator-port=0", "--tools-port=0"),
        f"--store-url=sqlite:///{folder}/store.db",
        f"--translator-profiles={write_profile(folder, triton.endpoint)}",
        *more,
    )
    with serving(*options) as command:
        await asyncio.to_thread(command.wait_for, "^workers +2 processes")
        yield command


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(storyteller: FixedTextTriton, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with serving_all(tmp_path_factory.mktemp("service"), storyteller) as command:
        yield command


@pytest_asyncio.fixture(loop_scope="module")
async def own_service(triton: FixedTextTriton, tmp_path: Path) -> AsyncIterator[Command]:
    """A service that the test ends."""
    async with serving_all(tmp_path, triton) as command:
        yield command


def url_of(service: Command) -> str:
    return service.wait_for(r"^edge +(http://\S+)/v1")[1]


def workers_of(service: Command) -> list[psutil.Process]:
    return psutil.Process(service.process.pid).children()


def connections_of(worker: psutil.Process, service: Command) -> int:
    """The number of clients of the edge that a worker has."""
    port = int(url_of(service).rpartition(":")[2])
    found = worker.net_connections("tcp")
    return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found)


@asynccontextmanager
async def client(service: Command, *, keeps: bool = False) -> AsyncIterator[Http]:
    """Each request has its own connection, which stays open with `keeps`."""
    connector = aiohttp.TCPConnector(force_close=not keeps, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield RetryingHttp(session, url_of(service))


async def stream(http: Http, first: asyncio.Event) -> bytes:
    """The body of a streamed response. Sets `first` when the response has begun."""
    body = {"model": "m", "input": "hi", "stream": True}
    read = b""
    async with http.session.post(http.url + "/v1/responses", json=body) as answer:
        async for chunk in answer.content.iter_any():
            read += chunk
            if b"output_text.delta" in read:
                first.set()
    return read


def text_of(body: bytes) -> str:
    (last,) = [event for event in events.decode(body) if event["type"] == "response.completed"]
    return str(last["response"]["output"][0]["content"][0]["text"])


async def test_all_workers_get_connections_and_serve_one_history(service: Command) -> None:
    async with client(service, keeps=True) as http:
        answers = await asyncio.gather(*(http.create(model="m", input="hi") for _ in range(CONNECTIONS)))
        assert {answer.status for answer in answers} == {200}
        assert all(connections_of(worker, service) for worker in workers_of(service))
    async with client(service) as http:  # each response is continued and read on any worker
        continued = await asyncio.gather(
            *(http.create(model="m", input="and?", previous_response_id=answer.json["id"]) for answer in answers)
        )
        read = await asyncio.gather(*(http.get(f"/v1/responses/{answer.json['id']}") for answer in continued))
        assert {answer.status for answer in (*continued, *read)} == {200}


async def test_sealed_content_of_one_worker_is_opened_by_another(service: Command) -> None:
    async with client(service) as http:
        sealed = [await http.post("/v1/responses/compact", {"model": "m", "input": "hi"}) for _ in range(4)]
        assert {answer.status for answer in sealed} == {200}, sealed
        for answer in sealed:
            tries = [{"model": "m", "input": [*answer.json["output"], {"role": "user", "content": "hi"}]}] * 4
            answers = await asyncio.gather(*(http.post("/v1/responses", body) for body in tries))
            assert {each.status for each in answers} == {200}, answers


async def test_a_worker_that_was_killed_is_replaced_and_the_others_go_on(
    own_service: Command, triton: FixedTextTriton
) -> None:
    triton.hold(at=3)
    begun = [asyncio.Event() for _ in range(CONNECTIONS)]
    victim, other = workers_of(own_service)
    async with client(own_service) as http:
        streams = [asyncio.create_task(stream(http, each)) for each in begun]
        await asyncio.gather(*(each.wait() for each in begun))
        kept = connections_of(other, own_service)
        victim.kill()
        triton.go_on()
        bodies = await asyncio.gather(*streams, return_exceptions=True)
        told = [text_of(body) for body in bodies if isinstance(body, bytes) and b"response.completed" in body]
        assert told == [fixed_text(WORDS)] * kept
        ready = re.compile(r"worker \d is ready, as process (\d+)")
        await until(
            lambda: sum(bool(ready.search(line)) for line in own_service.lines) == WORKERS + 1, "it is replaced"
        )
        async with client(own_service, keeps=True) as again:
            await asyncio.gather(*(again.get("/v1/models") for _ in range(CONNECTIONS)))
            assert {worker.pid for worker in workers_of(own_service) if connections_of(worker, own_service)} == {
                worker.pid for worker in workers_of(own_service)
            }
    assert any(re.search(r"worker \d was killed by signal 9; it is restarted", line) for line in own_service.lines)
    assert await asyncio.to_thread(own_service.stop) == 0


async def test_a_signal_drains_the_streams_of_all_workers(own_service: Command, triton: FixedTextTriton) -> None:
    triton.hold(at=3)
    begun = [asyncio.Event() for _ in range(CONNECTIONS)]
    async with client(own_service) as http:
        streams = [asyncio.create_task(stream(http, each)) for each in begun]
        await asyncio.gather(*(each.wait() for each in begun))
        assert all(connections_of(worker, own_service) for worker in workers_of(own_service))
        own_service.process.send_signal(signal.SIGTERM)
        await until(lambda: sum("stopping edge" in line for line in own_service.lines) == WORKERS, "all workers drain")
        triton.go_on()
        assert {text_of(body) for body in await asyncio.gather(*streams)} == {fixed_text(WORDS)}
    assert await asyncio.to_thread(own_service.process.wait) == 0


async def test_a_second_signal_ends_all_workers_at_once(own_service: Command, triton: FixedTextTriton) -> None:
    triton.hold(at=3)
    begun = asyncio.Event()
    async with client(own_service) as http:
        running = asyncio.create_task(stream(http, begun))
        await begun.wait()
        own_service.process.send_signal(signal.SIGTERM)
        await until(lambda: sum("stopping edge" in line for line in own_service.lines) == WORKERS, "all workers drain")
        own_service.process.send_signal(signal.SIGTERM)
        with pytest.raises(aiohttp.ClientError):
            await running
    assert await asyncio.to_thread(own_service.process.wait) == -signal.SIGTERM


async def test_workers_die_with_their_supervisor() -> None:
    with serving(*LONELY_EDGE, "--edge-port=0") as service:
        await asyncio.to_thread(service.wait_for, "^workers +2 processes")
        workers = workers_of(service)
        assert len(workers) == WORKERS
        service.kill()
    await until(lambda: not any(psutil.pid_exists(worker.pid) for worker in workers), "all are gone")


async def test_each_worker_returns_free_memory_before_it_rejects_turns(tmp_path: Path, triton: FixedTextTriton) -> None:
    limits = ("--edge-memory-limit-bytes=2", "--worker-memory-limit-bytes=2")
    async with serving_all(tmp_path, triton, *limits) as service, client(service) as http:
        seen: set[str] = set()
        async with asyncio.timeout(WAIT_MAX_S):
            while len(seen) < WORKERS:
                answer = await http.session.post(http.url + "/v1/responses", json={"model": "m", "input": "hi"})
                assert answer.status == 503
                assert "short of memory" in await answer.text()
                metrics = (await http.get("/v1/metrics")).body.decode()
                seen |= set(re.findall(r'antiphon_memory_returned_total{[^}]*step="trim"[^}]*} [1-9]', metrics))


async def test_workers_that_cannot_start_end_the_service_with_one_message(tmp_path: Path) -> None:
    options = (*LONELY_EDGE, "--edge-port=0")
    missing = (f"--edge-keys-file={tmp_path}/keys", f"--edge-keys-pepper-file={tmp_path}/pepper")
    with serving(*options, *missing) as command:
        assert await asyncio.to_thread(command.process.wait) == 2
        command._reader.join()
        assert [line.startswith("antiphon: Cannot read the pepper") for line in command.lines] == [True]


async def test_a_port_that_is_taken_ends_the_service_with_one_message(service_port: int) -> None:
    options = (*LONELY_EDGE, f"--edge-port={service_port}")
    with serving(*options) as command:
        assert await asyncio.to_thread(command.process.wait) == 1
        command._reader.join()
        assert command.lines == [
            f"antiphon: Cannot listen on 127.0.0.1 port {service_port}: Address already in use\n",
        ]


@pytest.fixture
def service_port() -> Iterator[int]:
    """The port of another service with workers, whose sockets would let ours share the port."""
    with serving(*LONELY_EDGE, "--edge-port=0") as other:
        other.wait_for("^workers")
        yield int(url_of(other).rpartition(":")[2])
