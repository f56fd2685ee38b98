"""Records the streams of a real Triton, message by message: `python -m tests.golden.engine_streams.record`.

Some recordings are answers of SmolLM2. The others come from the echo model of the tests, which sends the ids of its
prompt, four at a time, so that they contain characters of several tokens.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import Any

from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps
from antiphon_local_triton.repository import MODEL_NAME, write_model_repository
from antiphon_local_triton.server_venv import read_layout
from antiphon_translator.engines import triton_tokens
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.generation import TokenChunk
from antiphon_translator.models.profiles import ModelProfile
from tests.support import pushed
from tests.support.chunks import only
from tests.support.pipelines import pipeline_of
from tests.support.served_models import model, turn
from tests.support.triton import RunningTriton, ScriptedModel, server_venv, triton_repository, triton_server

FOLDER = Path(__file__).parent
ECHO = ScriptedModel("echo", "coarse", delay_ms=1, ids_per_response=4)
SCENARIOS: dict[str, tuple[str, Object]] = {
    "answer": ("What is the capital of France?", {"temperature": 0.0}),
    "story": ("Tell a story about the sea, with emoji.", {"temperature": 0.7, "max_output_tokens": 160}),
    "tired": ("Say anything at all.", {"temperature": 2.0, "max_output_tokens": 120}),
    "cut": ("Write the numbers from one to a hundred.", {"temperature": 0.0, "max_output_tokens": 7}),
}
ECHOES: dict[str, tuple[str, Object]] = {
    "scripts": ("naïve Größe 日本語で 😀👩‍👩‍👧 ⅷ ﷽ 🜁🜂🜃🜄 Ελληνικά", {"max_output_tokens": 80}),
    "half": ("👩‍👩‍👧", {"max_output_tokens": 9}),
}


async def record(engine: TritonEngine, text: str, parameters: dict[str, Any]) -> list[list[int]]:
    """The ids of one generation, message by message."""
    pipeline = pipeline_of(
        model(context_length=1024), turn(text, **parameters), controls=await engine.controls(), ids=SequentialIds()
    )
    _, request = pipeline.start()
    async with aclosing(pushed.chunks(engine, request)) as batches:
        chunks = [chunk async for batch in batches for chunk in batch]
        return [list(chunk.ids) for chunk in only(TokenChunk, chunks)]


async def record_all(server: RunningTriton, triton_model: str, scenarios: dict[str, tuple[str, Object]]) -> None:
    profile = ModelProfile(name="m", directory=Path(), endpoint=server.grpc_address, triton_model=triton_model)
    engine = triton_tokens.engine(profile, TritonChannels())
    for name, (text, parameters) in scenarios.items():
        messages = await record(engine, text, parameters)
        recording = {"text": text, "parameters": parameters, "messages": messages}
        (FOLDER / f"{name}.json").write_bytes(dumps(recording) + b"\n")
    await engine.close()


async def main() -> None:
    gguf = read_layout(server_venv()).packaged_gguf
    with tempfile.TemporaryDirectory() as folder:
        repository = write_model_repository(Path(folder) / "models", gguf=gguf, context_length=1024, slots=1)
        async with triton_repository(repository) as server:
            await record_all(server, MODEL_NAME, SCENARIOS)
    async with triton_server(ECHO) as server:
        await record_all(server, ECHO.name, ECHOES)


if __name__ == "__main__":
    asyncio.run(main())
