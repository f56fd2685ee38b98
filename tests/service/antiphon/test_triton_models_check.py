"""Failures that `antiphon triton-models check` finds. A model that passes every check is that of the guide
(tests/integration/test_triton_models_guide.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.triton_models_check import findings
from antiphon_local_triton.model_directory import build_model_directory
from antiphon_local_triton.server_venv import read_layout
from tests.support.triton import RunningTriton, ScriptedModel, server_venv, triton_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "smollm2"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gguf = read_layout(server_venv()).packaged_gguf
    return build_model_directory(gguf, tmp_path_factory.mktemp("model") / NAME, chat_template="{{ messages }}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def foreign() -> AsyncIterator[RunningTriton]:
    """A Triton whose model writes an id that the tokenizer does not have."""
    async with triton_server(ScriptedModel(NAME, says=[60_000])) as running:
        yield running


async def test_checks_end_at_the_first_that_fails(foreign: RunningTriton, tokenizer: Path) -> None:
    [(name, finding, is_well)] = await findings(foreign.grpc_address, "nope", tokenizer)
    assert (name, is_well) == ("model", False)
    assert "has no such model" in finding


async def test_ids_that_the_tokenizer_does_not_have_fail(foreign: RunningTriton, tokenizer: Path) -> None:
    *_, (name, finding, is_well) = await findings(foreign.grpc_address, NAME, tokenizer)
    assert (name, is_well) == ("ids", False)
    assert "60000" in finding
