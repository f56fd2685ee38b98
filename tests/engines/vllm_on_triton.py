"""The token-level model on vLLM, inside a real Triton, on the CPU: `make engines` runs it, because it installs vLLM."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.contract.engine.tokens_suite import CONTEXT_LENGTH, TokensContract
from tests.engines.token_servers import vllm_server
from tests.support.triton import RunningTriton

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1_200)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    async with vllm_server(CONTEXT_LENGTH) as running:
        yield running


class TestVllm(TokensContract):
    """All of the suite."""
