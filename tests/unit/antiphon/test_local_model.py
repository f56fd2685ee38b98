from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import cast

import pytest

from antiphon.local_model import CONTEXT_TOKENS_MAX, OUTPUT_TOKENS_DEFAULT, LocalModel, _context_length
from antiphon_local_triton.supervisor import LocalTriton


class FakeTriton:
    """A Triton that is ready at once."""

    grpc_address = "127.0.0.1:1"
    log_path = Path("/d/triton.log")

    def __init__(self) -> None:
        self.is_running = False

    async def start(self) -> None:
        self.is_running = True

    async def stop(self) -> None:
        self.is_running = False


async def test_the_profile_names_the_triton_that_was_started(tmp_path: Path) -> None:
    triton = FakeTriton()
    model = LocalModel("smollm2", cast(LocalTriton, triton), Path("/d/models/smollm2"), 2_048, tmp_path)
    await model.start()
    assert triton.is_running
    assert tomllib.loads((tmp_path / "model-0.toml").read_text()) == {
        "name": "smollm2",
        "directory": "/d/models/smollm2",
        "endpoint": "127.0.0.1:1",
        "triton_model": "tensorrt_llm",
        "context_length": 2_048,
        "max_output_tokens": OUTPUT_TOKENS_DEFAULT,
    }
    assert "/d/triton.log" in model.engine
    await model.stop()
    assert not triton.is_running


@pytest.mark.parametrize(
    ("config", "context_length"),
    [({"max_position_embeddings": 512}, 512), ({"max_position_embeddings": 10**6}, CONTEXT_TOKENS_MAX), ({}, 4_096)],
)
def test_context_length_is_that_of_the_model_up_to_a_limit(
    config: dict[str, int], context_length: int, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert _context_length(tmp_path) == context_length
