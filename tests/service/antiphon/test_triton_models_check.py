"""`antiphon triton-models` from a new repository to a Triton that has been tried: the commands of the guide."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon import cli
from antiphon.triton_models_check import findings
from antiphon_local_triton.model_directory import build_model_directory
from antiphon_local_triton.server_venv import read_layout
from tests.support.triton import RunningTriton, ScriptedModel, server_venv, triton_repository, triton_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "smollm2"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gguf = read_layout(server_venv()).packaged_gguf
    return build_model_directory(gguf, tmp_path_factory.mktemp("model") / NAME, chat_template="{{ messages }}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningTriton]:
    """A Triton with the repository that the command writes."""
    gguf, out = read_layout(server_venv()).packaged_gguf, tmp_path_factory.mktemp("repository") / "models"
    named = ("--engine", "llama_cpp", "--model", str(gguf), "--name", NAME, "--set", "context_length: 1024")
    assert cli.main(["triton-models", "write", str(out), *named]) == 0
    async with triton_repository(out, NAME) as running:
        yield running


async def test_written_model_passes_every_check(
    server: RunningTriton, tokenizer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [server.grpc_address, "--name", NAME, "--tokenizer", str(tokenizer)]
    status = await asyncio.to_thread(cli.main, ["triton-models", "check", *options])
    shown = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert status == 0, shown
    assert shown["model"].strip() == "ready"
    assert "8 ids, which the tokenizer reads as ' Madrid" in shown["ids"]
    assert int(shown["cached tokens"].split()[0]) > 100
    assert shown["salts"].strip().startswith("two salts share nothing; under one salt ")
    assert re.fullmatch(r"[\d.]+ ms in the queue, [\d.]+ ms to read the prompt", shown["times"].strip())
    assert shown["finish reason"].strip() == "reported: length"
    assert "cancelled after 2 ids, and answers again" in shown["cancellation"]


async def test_checks_end_at_the_first_that_fails(server: RunningTriton, tokenizer: Path) -> None:
    [(name, finding, is_well)] = await findings(server.grpc_address, "nope", tokenizer)
    assert (name, is_well) == ("model", False)
    assert "has no such model" in finding


async def test_ids_that_the_tokenizer_does_not_have_fail(tokenizer: Path) -> None:
    async with triton_server(ScriptedModel(NAME, says=[60_000])) as foreign:
        *_, (name, finding, is_well) = await findings(foreign.grpc_address, NAME, tokenizer)
    assert (name, is_well) == ("ids", False)
    assert "60000" in finding
