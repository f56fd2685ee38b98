"""The token-level model on the LLM API of TensorRT-LLM, whose place a stub on llama.cpp takes: its signatures are those
of the public sources (tests/support/tensorrt_llm_stub)."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_local_triton.server_venv import read_layout
from antiphon_tokens import repository
from antiphon_tokens.engines import tensorrt_llm
from antiphon_tokens.repository import VERSION, Model
from tests.contract.engine.tokens_suite import CONTEXT_LENGTH, FRANCE, PARIS, TokensContract, asked, text_of
from tests.support.served_models import END_ID
from tests.support.token_client import TokenClient, TritonFault
from tests.support.triton import RunningTriton, server_venv, triton_repository

pytestmark = pytest.mark.asyncio(loop_scope="module")

STUBS = Path(__file__).parents[2] / "support/tensorrt_llm_stub"
OLDER = "older"
NEW = frozenset({"conversation", "priority"})
"""Features that the older release lacks."""


def write(out: Path, name: str, release: str, without: frozenset[str] = frozenset()) -> None:
    """Adds a model to a repository, with the stub of a release where Triton's Python finds it."""
    gguf = read_layout(server_venv()).packaged_gguf
    arguments = {"model": str(gguf), "max_seq_len": CONTEXT_LENGTH, "max_batch_size": 4, **tensorrt_llm.ARGUMENTS}
    version = repository.write(out, Model(name, "tensorrt_llm", arguments, without)) / VERSION
    shutil.copytree(STUBS / release / "tensorrt_llm", version / "tensorrt_llm")
    shutil.copy(STUBS / "llm_on_llama.py", version)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningTriton]:
    """The model on the newest release, and on an older one."""
    out = tmp_path_factory.mktemp("repository") / "models"
    write(out, MODEL_NAME, "newest")
    write(out, OLDER, "older", NEW)
    async with triton_repository(out, MODEL_NAME, OLDER) as running:
        yield running


class TestTensorrtLlm(TokensContract):
    """All of the suite, with all features."""


async def test_older_release_answers_with_the_features_that_it_has(server: RunningTriton) -> None:
    client = TokenClient(server.grpc_address, OLDER)
    answer = await client.generate(asked(FRANCE), 50, end_id=END_ID, cache_salt="a", return_perf_metrics=True)
    assert (text_of(answer.ids), answer.outputs["cached_tokens"][-1]) == (PARIS, [0])
    with pytest.raises(TritonFault, match="unexpected inference input 'priority'"):
        await client.generate(asked(FRANCE), 5, priority=1)
    await client.close()


async def test_model_with_features_that_the_release_lacks_does_not_load(tmp_path: Path) -> None:
    write(tmp_path, MODEL_NAME, "older")
    message = r"tensorrt_llm older.stub cannot serve: conversation \(no conversation_params in LLM.generate_async\)"
    with pytest.raises(LocalModelError, match=message):
        async with triton_repository(tmp_path):
            pass
