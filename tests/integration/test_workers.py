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

from antiphon_core import events
from tests.support.http import Http, PatientHttp
from tests.support.patience import until
from tests.support.served_models import write_directory
from tests.support.storytelling import StorytellingTriton, story, storytelling_triton
from tests.support.system import Command

WORDS = 30
WORKERS = 2
CONNECTIONS = 40  # all at one of two workers: once in 2**39 runs


@pytest.fixture
async def triton() -> AsyncIterator[StorytellingTriton]:
    async with storytelling_triton(WORDS) as running:
        yield running


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Command]:
    """A command that has not said yet that it serves."""
    command = Command("serve", f"--workers={WORKERS}", *options)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.kill()  # and with it, its workers


@pytest.fixture
async def service(triton: StorytellingTriton, tmp_path: Path) -> AsyncIterator[Command]:
    """All targets over one SQLite file, ready."""
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    directory = write_directory(tmp_path / "model")
    (profiles / "m.toml").write_text(
        f'name = "m"\ndirectory = "{directory}"\nendpoint = "{triton.endpoint}"\nengine = "triton_tokens"\n'
    )
    options = (
        *("--target=all", "--edge-port=0", "--store-port=0", "--translator-port=0"),
        f"--store-url=sqlite:///{tmp_path}/store.db",
        f"--translator-profiles={profiles}",
    )
    with serving(tmp_path, *options) as command:
        await asyncio.to_thread(command.wait_for, "^workers +2 processes")
        yield command


def url_of(service: Command) -> str:
    return service.wait_for(r"^edge +(http://\S+)/v1")[1]


def workers_of(service: Command) -> list[psutil.Process]:
    return psutil.Process(service.process.pid).children()


def connections_of(worker: psutil.Process, service: Command) -> int:
    """How many clients of the edge a worker has."""
    port = int(url_of(service).rpartition(":")[2])
    found = worker.net_connections("tcp")
    return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found)


@asynccontextmanager
async def client(service: Command, *, keeps: bool = False) -> AsyncIterator[Http]:
    """Each request is a connection of its own, which stays with `keeps`."""
    connector = aiohttp.TCPConnector(force_close=not keeps, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield PatientHttp(session, url_of(service))


async def stream(http: Http, first: asyncio.Event) -> bytes:
    """The body of a streamed response; `first` is set when it has begun."""
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
    async with client(service) as http:  # each is continued, and read, wherever its connection goes
        continued = await asyncio.gather(
            *(http.create(model="m", input="and?", previous_response_id=answer.json["id"]) for answer in answers)
        )
        read = await asyncio.gather(*(http.get(f"/v1/responses/{answer.json['id']}") for answer in continued))
        assert {answer.status for answer in (*continued, *read)} == {200}


async def test_what_one_worker_sealed_another_opens(service: Command) -> None:
    async with client(service) as http:
        sealed = [await http.post("/v1/responses/compact", {"model": "m", "input": "hi"}) for _ in range(4)]
        assert {answer.status for answer in sealed} == {200}, sealed
        for answer in sealed:
            tries = [{"model": "m", "input": [*answer.json["output"], {"role": "user", "content": "hi"}]}] * 4
            answers = await asyncio.gather(*(http.post("/v1/responses", body) for body in tries))
            assert {each.status for each in answers} == {200}, answers


async def test_a_signal_drains_the_streams_of_all_workers(service: Command, triton: StorytellingTriton) -> None:
    triton.hold(at=3)
    begun = [asyncio.Event() for _ in range(CONNECTIONS)]
    async with client(service) as http:
        streams = [asyncio.create_task(stream(http, each)) for each in begun]
        await asyncio.gather(*(each.wait() for each in begun))
        assert all(connections_of(worker, service) for worker in workers_of(service))
        service.process.send_signal(signal.SIGTERM)
        await until(lambda: sum("stopping edge" in line for line in service.lines) == WORKERS, "all workers drain")
        triton.go_on()
        assert {text_of(body) for body in await asyncio.gather(*streams)} == {story(WORDS)}
    assert await asyncio.to_thread(service.process.wait) == 0


async def test_a_worker_that_was_killed_is_replaced_and_the_others_go_on(
    service: Command, triton: StorytellingTriton
) -> None:
    triton.hold(at=3)
    begun = [asyncio.Event() for _ in range(CONNECTIONS)]
    victim, other = workers_of(service)
    async with client(service) as http:
        streams = [asyncio.create_task(stream(http, each)) for each in begun]
        await asyncio.gather(*(each.wait() for each in begun))
        kept = connections_of(other, service)
        victim.kill()
        triton.go_on()
        bodies = await asyncio.gather(*streams, return_exceptions=True)
        told = [text_of(body) for body in bodies if isinstance(body, bytes) and b"response.completed" in body]
        assert told == [story(WORDS)] * kept
        ready = re.compile(r"worker \d is ready, as process (\d+)")
        await until(lambda: sum(bool(ready.search(line)) for line in service.lines) == WORKERS + 1, "it is replaced")
        async with client(service, keeps=True) as again:
            await asyncio.gather(*(again.get("/v1/models") for _ in range(CONNECTIONS)))
            assert {worker.pid for worker in workers_of(service) if connections_of(worker, service)} == {
                worker.pid for worker in workers_of(service)
            }
    assert any(re.search(r"worker \d was killed by signal 9; it is restarted", line) for line in service.lines)
    assert await asyncio.to_thread(service.stop) == 0


async def test_a_second_signal_ends_all_at_once(service: Command, triton: StorytellingTriton) -> None:
    triton.hold(at=3)
    begun = asyncio.Event()
    async with client(service) as http:
        running = asyncio.create_task(stream(http, begun))
        await begun.wait()
        service.process.send_signal(signal.SIGTERM)
        await until(lambda: sum("stopping edge" in line for line in service.lines) == WORKERS, "all workers drain")
        service.process.send_signal(signal.SIGTERM)
        with pytest.raises(aiohttp.ClientError):
            await running
    assert await asyncio.to_thread(service.process.wait) == 128 + signal.SIGTERM


async def test_workers_die_with_their_supervisor(service: Command) -> None:
    workers = workers_of(service)
    service.kill()
    await until(lambda: not any(psutil.pid_exists(worker.pid) for worker in workers), "all are gone")


def test_workers_that_cannot_start_end_the_service_with_one_message(tmp_path: Path) -> None:
    options = ("--target=edge", "--edge-port=0", "--edge-store=h:1", "--edge-translator=h:1")
    missing = (f"--edge-keys-file={tmp_path}/keys", f"--edge-keys-pepper-file={tmp_path}/pepper")
    with serving(tmp_path, *options, *missing) as command:
        assert command.process.wait() == 2
        command._reader.join()
        assert [line.startswith("antiphon: Cannot read the pepper") for line in command.lines] == [True]


def test_a_port_that_is_taken_ends_the_service_with_one_message(service_port: int, tmp_path: Path) -> None:
    options = ("--target=edge", f"--edge-port={service_port}", "--edge-store=h:1", "--edge-translator=h:1")
    with serving(tmp_path, *options) as command:
        assert command.process.wait() == 1
        command._reader.join()
        assert command.lines == [
            f"antiphon: Cannot listen on 127.0.0.1 port {service_port}: Address already in use\n",
        ]


@pytest.fixture
def service_port(tmp_path: Path) -> Iterator[int]:
    """That of another service of workers, whose sockets would let ours join in."""
    options = ("--target=edge", "--edge-port=0", "--edge-store=h:1", "--edge-translator=h:1")
    with serving(tmp_path, *options) as other:
        other.wait_for("^workers")
        yield int(url_of(other).rpartition(":")[2])
