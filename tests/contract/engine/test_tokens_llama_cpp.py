"""The token-level model on llama.cpp."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from antiphon_local_triton.repository import MODEL_NAME
from antiphon_local_triton.server_venv import read_layout
from tests.contract.engine.tokens_suite import CONTEXT_LENGTH, TokensContract
from tests.support.triton import RunningTriton, server_venv, smollm2_repository, triton_repository

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningTriton]:
    gguf, out = read_layout(server_venv()).packaged_gguf, tmp_path_factory.mktemp("repository") / "models"
    smollm2_repository(out, gguf, MODEL_NAME, slots=4, context_length=CONTEXT_LENGTH)
    async with triton_repository(out) as running:
        yield running


class TestLlamaCpp(TokensContract):
    """All of the suite."""
