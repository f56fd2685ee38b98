"""A translator process that is stopped in mid-stream: another one resumes the turn, new turns avoid the stopped one,
and it is used again when it continues."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from antiphon_core.events import decode
from antiphon_core.flow import Flow
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch
from antiphon_edge.turns.generation import Generation
from antiphon_translator.client import TranslatorClient
from tests.support.engine_plays import Ending
from tests.support.fake_triton import FakeTriton, Raw, fake_triton, input_ids_of, token_response
from tests.support.ports import free_ports
from tests.support.served_models import tokenizer, turn, write_profile
from tests.support.system import Command
from tests.support.waiting import WAIT_MAX_S, least, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTS = ("127.0.0.1", "127.0.0.2")
SILENCE_S = 2.0
TOKENS = 40
CONNECTION_S = 30.0
"""Shorter than the time in which a keepalive of a connection notices the stop."""


@dataclass
class Pair:
    """Two translators at one port, each with its own engine."""

    port: int
    commands: list[Command]
    engines: list[FakeTriton]

    def client(self) -> TranslatorClient:
        return TranslatorClient(f"pair:{self.port}", silence_s=SILENCE_S)

    def send(self, number: int, sent: signal.Signals) -> None:
        os.kill(self.commands[number].process.pid, sent)

    def asked(self, said: str) -> list[int]:
        """How many generations with this text in the prompt each engine received. Requests for other texts may be late:
        a translator that was frozen reads the calls in its sockets when it continues."""
        return [sum(said in _prompt_of(request) for request in engine.requests) for engine in self.engines]


def _prompt_of(request: Raw) -> str:
    return tokenizer().decode(input_ids_of(request))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("pair")
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(fake_triton()) for _ in HOSTS]
        made = Pair(port, [], engines)
        stack.callback(lambda: [command.stop() for command in made.commands])
        for number, (host, engine) in enumerate(zip(HOSTS, engines, strict=True)):
            profiles = write_profile(folder / str(number), engine.endpoint)
            options = (f"--translator-host={host}", f"--translator-port={port}", f"--translator-profiles={profiles}")
            made.commands.append(Command("serve", "--target=translator", *options))
        for command in made.commands:
            await asyncio.to_thread(command.wait_for, r"^translator\b")
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def pair(running_pair: Pair, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """Both translators running, under one host name."""
    loop = asyncio.get_running_loop()
    getaddrinfo = loop.getaddrinfo

    async def both(host: Any, port: Any, **options: Any) -> Any:
        if host != "pair":
            return await getaddrinfo(host, port, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in HOSTS]

    monkeypatch.setattr(loop, "getaddrinfo", both)
    word = tokenizer().encode(" word")
    for engine in running_pair.engines:
        engine.script = [*[step for _ in range(TOKENS) for step in (0.05, token_response(word))], Ending.BY_ITSELF]
    yield running_pair
    for number in range(len(HOSTS)):
        running_pair.send(number, signal.SIGCONT)


def new_text() -> str:
    """A text that no other turn has."""
    return f"Turn {uuid.uuid4().hex}."


async def generated(client: TranslatorClient, said: str, taken: list[Batch]) -> Batch:
    generation = Generation(client, turn(said, max_output_tokens=TOKENS, temperature=0), taken.append, flow=Flow())
    async with asyncio.timeout(CONNECTION_S):
        return await generation.run()


async def test_a_turn_of_a_frozen_translator_continues_on_another(pair: Pair) -> None:
    client, said = pair.client(), new_text()
    taken: list[Batch] = []
    running = asyncio.ensure_future(generated(client, said, taken))
    await until(lambda: len(taken) > 4, "the first words")
    frozen = pair.asked(said).index(1)
    pair.send(frozen, signal.SIGSTOP)
    terminal = await running
    assert terminal.final is not None
    assert terminal.final.status is Status.INCOMPLETE  # at max_output_tokens
    told = [event for batch in (*taken, terminal) for event in decode(batch.frames)]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    words = "".join(event["delta"] for event in told if event["type"] == "response.output_text.delta")
    assert words == " word" * TOKENS
    assert pair.asked(said)[1 - frozen] == 1

    for _ in range(2):  # one of these turns would go to the frozen translator
        terminal = await generated(client, new_text(), [])
        assert terminal.final is not None
        assert terminal.final.status is Status.INCOMPLETE
    pair.send(frozen, signal.SIGCONT)
    said = new_text()
    async with asyncio.timeout(WAIT_MAX_S):
        while not pair.asked(said)[frozen]:
            await generated(client, said, [])
    await client.close()


async def test_a_translator_whose_engine_is_silent_is_not_lost(pair: Pair) -> None:
    for engine in pair.engines:
        engine.script = [1.5 * SILENCE_S, token_response(tokenizer().encode(" word")), Ending.BY_ITSELF]
    client = pair.client()

    async def begun() -> int:
        said = new_text()
        terminal = await generated(client, said, [])
        assert terminal.final is not None
        assert terminal.final.status is Status.COMPLETED
        return sum(pair.asked(said))

    assert await least(begun, most=1) == 1
    await client.close()
