"""`antiphon up` with a user's own models: any GGUF file, a Triton that already runs, or what profiles describe."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from antiphon.folders import cache_folder
from antiphon_core import events
from antiphon_local_triton.server_venv import ensure_server_venv, read_layout
from tests.support.fake_chat import delta, ending, fake_chat
from tests.support.http import Http
from tests.support.in_a_thread import in_a_thread
from tests.support.served_models import write_directory
from tests.support.system import System, up
from tests.support.triton import RunningTriton, ScriptedModel, triton_server
from tests.support.waiting import least

DELAY_MS = 150.0
LONG = "a list of words " * 30
BEGUN = "begun id="
"""The model logs it at the start of each generation, before the id of the request."""


async def test_a_gguf_file_brings_its_own_tokenizer_and_template(tmp_path: Path) -> None:
    venv = await asyncio.to_thread(ensure_server_venv, cache_folder(), lambda _: None)
    gguf = tmp_path / "My Model.gguf"
    gguf.symlink_to(read_layout(venv).packaged_gguf)
    with up(tmp_path / "data", "--gguf", str(gguf)) as system:
        assert system.model == "my-model"
        async with aiohttp.ClientSession() as session:
            answer = (await Http(session, system.url).create(model="my-model", input="Hello", temperature=0)).json
    assert answer["status"] == "completed"
    # The file's own template adds a system prompt of some twenty tokens; ours, for the toy model, does not.
    assert answer["usage"]["input_tokens"] > 25


@dataclass
class PacedSystem:
    """A system whose model makes a token at a time."""

    triton: RunningTriton
    system: System


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def paced(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PacedSystem]:
    folder = tmp_path_factory.mktemp("paced")
    model_directory = write_directory(folder / "model")
    async with triton_server(ScriptedModel("paced", delay_ms=DELAY_MS)) as triton:
        own = ("--triton", triton.grpc_address, "--model-dir", str(model_directory), "--triton-model", "paced")
        with up(folder / "data", *own) as system:
            yield PacedSystem(triton, system)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("stream", [True, False])
async def test_hanging_up_stops_the_model_within_one_token(paced: PacedSystem, stream: bool) -> None:
    async with aiohttp.ClientSession() as session:
        http = Http(session, paced.system.url)

        async def tokens_too_many() -> int:
            number = 1 + paced.triton.log_text().count(BEGUN)
            received = await (_hang_up_streaming(http) if stream else _hang_up_waiting(http, paced.triton, number))
            begun = await paced.triton.logged(BEGUN, number=number)
            generated = await paced.triton.tokens_when_cancelled(begun.partition(BEGUN)[2].split()[0])
            assert generated >= received or not stream
            return generated - received

        assert await least(tokens_too_many, most=1) <= 1


async def _hang_up_streaming(http: Http) -> int:
    """Leaves after some deltas; how many."""
    deltas = 0
    async with http.stream(model="model", input=LONG) as stream:
        async for event in stream:
            deltas += 1 if event["type"] == events.OUTPUT_TEXT_DELTA else 0
            if deltas == 5:
                return deltas
    raise AssertionError("the stream ended early")


async def _hang_up_waiting(http: Http, triton: RunningTriton, number: int) -> int:
    """Gives up while waiting for a whole answer; how many tokens can have been made by then."""
    asking = asyncio.create_task(http.create(model="model", input=LONG))
    await triton.logged(BEGUN, number=number)
    begun_s = time.monotonic()
    await asyncio.sleep(4 * DELAY_MS / 1000)
    asking.cancel()
    took_s = time.monotonic() - begun_s
    with pytest.raises(asyncio.CancelledError):
        await asking
    return math.ceil(took_s * 1000 / DELAY_MS)


async def test_an_unreachable_triton_is_reported_and_requests_get_a_503(tmp_path: Path) -> None:
    model_directory = write_directory(tmp_path / "model")
    with up(tmp_path / "data", "--triton", "127.0.0.1:1", "--model-dir", str(model_directory)) as system:
        assert "cannot be reached" in system.commands["up"].wait_for(r"^warning: not ready yet: .*")[0]
        async with aiohttp.ClientSession() as session:
            http = Http(session, system.url)
            assert (await http.get("/v1/health/ready")).status == 503
            refused = await http.create(model="model", input="hi")
    assert (refused.status, refused.error["code"]) == (503, "engine_unavailable")


async def test_profiles_of_your_own_are_served_each_when_it_is_ready(tmp_path: Path) -> None:
    write_directory(tmp_path / "own/weights")
    with in_a_thread(fake_chat()) as chat:
        chat.script = [delta(content="Hello."), *ending()]
        engines = {"m": f'engine = "openai_chat"\nendpoint = "{chat.endpoint}"', "n": 'endpoint = "127.0.0.1:1"'}
        for name, engine in engines.items():
            (tmp_path / f"own/{name}.toml").write_text(f'name = "{name}"\ndirectory = "weights"\n{engine}\n')
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "own").rglob("*")}
        with up(tmp_path / "data", "--profiles", str(tmp_path / "own")) as system:
            assert system.model == "m"
            warning = system.commands["up"].wait_for(r"^warning: not ready yet: (.*)")[1]
            async with aiohttp.ClientSession() as session:
                answer = await Http(session, system.url).create(model="m", input="Hi")
    assert warning.startswith("n: ")
    assert "m: " not in warning
    assert answer.json["output"][0]["content"][0]["text"] == "Hello."
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "own").rglob("*")} == before
    assert not [path for path in (tmp_path / "data").iterdir() if path.is_dir()], "a Triton or a profile of our own"
