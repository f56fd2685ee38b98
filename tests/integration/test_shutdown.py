"""SIGTERM and Ctrl-C, in every way to run Antiphon: streams that outlast the drain end with an error that asks their
client to repeat the request, and a second signal ends the process at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

import aiohttp
import pytest

from antiphon_core.jsons import Object
from tests.support.fake_chat import MODEL, FakeChat, delta, fake_chat
from tests.support.http import Http
from tests.support.system import Command, split, up
from tests.support.volume import volume
from tests.support.waiting import WAIT_MAX_S

STREAMS = volume(5, 50)
SIGNAL_PAIRS = volume(2, 40)
DRAIN_S = volume(0.5, 12.0)
DRAINS = [f"--{target}-drain-s={DRAIN_S}" for target in ("edge", "worker", "translator", "tools", "store")]
FAULTS = ("Traceback", "Fatal", "Exception", "core dumped")


@pytest.fixture
async def chat() -> AsyncIterator[FakeChat]:
    """A model that goes on for an hour behind its first word."""
    async with fake_chat() as running:
        running.script = [delta(content="Hi"), 3_600.0]
        running.context_length = 4_096
        yield running


def _profiles(folder: Path, chat: FakeChat) -> Path:
    profiles = folder / "profiles"
    profiles.mkdir()
    profile = f'name = "{MODEL}"\nendpoint = "{chat.endpoint}"\nengine = "openai_chat"\ncontext_length = 4096\n'
    (profiles / "m.toml").write_text(profile)
    return profiles


@contextmanager
def _up(folder: Path, chat: FakeChat) -> Iterator[tuple[Command, str]]:
    with up(folder, f"--openai={chat.endpoint}", *DRAINS) as system:
        yield system.commands["up"], system.url


@contextmanager
def _split(folder: Path, chat: FakeChat) -> Iterator[tuple[Command, str]]:
    with split(folder, profiles=_profiles(folder, chat), model=MODEL, options=DRAINS) as system:
        yield system.commands["edge"], system.url


@contextmanager
def _workers(folder: Path, chat: FakeChat) -> Iterator[tuple[Command, str]]:
    ports = (
        "--edge-port=0",
        "--store-port=0",
        "--translator-port=0",
        "--tools-port=0",
        f"--store-url=sqlite:///{folder}/store.db",
    )
    profiles = f"--translator-profiles={_profiles(folder, chat)}"
    command = Command("serve", "--target=all", "--workers=2", *ports, profiles, *DRAINS)
    try:
        command.wait_for("^workers +2 processes")
        yield command, command.wait_for(r"^edge +(http://\S+)/v1")[1]
    finally:
        command.stop()


T = TypeVar("T")
WAYS = {"up": _up, "split": _split, "workers": _workers}


async def _heard(http: Http, begun: asyncio.Semaphore) -> list[Object]:
    """The events of one stream until its connection ends."""
    heard = []
    async with http.stream(model=MODEL, input="Go on.") as events:
        async for event in events:
            heard.append(event)
            if event["type"] == "response.output_text.delta":
                begun.release()
    return heard


@asynccontextmanager
async def _entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enters and leaves in a thread: the model is served by this event loop."""
    entered = await asyncio.to_thread(manager.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def _ended(command: Command) -> int:
    return await asyncio.to_thread(command.process.wait, WAIT_MAX_S)


@pytest.mark.parametrize("way", WAYS)
async def test_streams_that_outlast_the_drain_fail_with_a_code_of_the_shutdown(
    way: str, chat: FakeChat, tmp_path: Path
) -> None:
    begun = asyncio.Semaphore(0)
    async with _entered(WAYS[way](tmp_path, chat)) as (command, url):
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
            asyncio.TaskGroup() as group,
        ):
            streams = [group.create_task(_heard(Http(session, url), begun)) for _ in range(STREAMS)]
            for _ in streams:
                await begun.acquire()
            command.process.send_signal(signal.SIGINT)
        status = await _ended(command)
    for stream in streams:
        *_, error, failed = stream.result()
        assert (error["type"], error["code"], failed["type"]) == ("error", "server_shutting_down", "response.failed")
        assert failed["response"]["error"]["cause"]["code"] == "server_shutting_down"
    assert status == 0
    assert not [line for line in command.lines if any(fault in line for fault in FAULTS)]
    if way == "up":
        command.wait_for(f"^Stopping: {STREAMS} responses still running, .* press Ctrl-C again to end at once")


async def test_second_signal_ends_the_process_at_once(chat: FakeChat, tmp_path: Path) -> None:
    random = Random(7)
    for number in range(SIGNAL_PAIRS):
        begun = asyncio.Semaphore(0)
        folder = tmp_path / str(number)
        async with _entered(up(folder, f"--openai={chat.endpoint}", "--edge-drain-s=3600")) as system:
            command = system.commands["up"]
            async with aiohttp.ClientSession() as session:
                hearing = asyncio.create_task(_heard(Http(session, system.url), begun))
                await begun.acquire()
                command.process.send_signal(signal.SIGINT)
                await asyncio.to_thread(command.wait_for, "^Stopping: 1 response still running")
                await asyncio.sleep(random.random() / 5)
                command.process.send_signal(signal.SIGINT)
                assert await _ended(command) == -signal.SIGINT
                with pytest.raises(aiohttp.ClientError):
                    await hearing
        assert not [line for line in command.lines if any(fault in line for fault in FAULTS)]
