"""An engine that is added to the token-level model is one file of the folder `engines`: the command writes its models,
and a real Triton serves them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import antiphon_tokens
from tests.support import echo
from tests.support.token_client import TokenClient, TritonFault
from tests.support.triton import RunningTriton, triton_repository

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "mine"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that a copy of the package writes, which has one file more."""
    folder = tmp_path_factory.mktemp("fourth")
    package = shutil.copytree(Path(antiphon_tokens.__file__).parent, folder / "antiphon_tokens")
    shutil.copy(echo.__file__, package / "engines")
    command = ["triton-models", "write", str(folder / "models"), "--engine", "echo", "--model", "walls", "--name", NAME]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-m", "antiphon", *command], env=environment, check=True)
    return folder / "models"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(models: Path) -> AsyncIterator[RunningTriton]:
    async with triton_repository(models, NAME) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(server: RunningTriton) -> AsyncIterator[TokenClient]:
    client = TokenClient(server.grpc_address, NAME)
    yield client
    await client.close()


async def test_engine_answers_by_the_rules_of_all_engines(client: TokenClient, server: RunningTriton) -> None:
    answer = await client.generate([5, 6, 7, 8, 9], 50, input_lengths=4, end_id=8, return_perf_metrics=True)
    assert (answer.ids, answer.finish_reason, answer.outputs["cached_tokens"][-1]) == ([5, 6, 7], "stop", [0])
    assert (await client.generate([5, 6], 3)).ids == [5, 6, 5]
    assert "echo of walls is ready" in server.log_text()


async def test_requests_beyond_its_limits_and_features_are_rejected(client: TokenClient) -> None:
    with pytest.raises(TritonFault, match="exceeds maximum input length"):
        await client.generate([1] * 256, 5)
    with pytest.raises(TritonFault, match="unexpected inference input 'cache_salt'"):
        await client.generate([1], 5, cache_salt="a")


async def test_cancelled_generation_ends(client: TokenClient, server: RunningTriton) -> None:
    answer = await client.cancelled_after(5, [5, 6, 7], 200, id="cancel-me")
    assert len(answer.ids) <= await server.tokens_when_cancelled("cancel-me") < 200
