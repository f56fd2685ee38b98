"""`antiphon up` with the models of scripted_system.py on a real Triton: the whole product without real weights.

The models' code is triton_models/answering.py. Their model directories and profiles, which an operator would write, are
written here. `python -m tests.support.scripted_up PORT` serves them until it is stopped.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon_core.jsons import dumps
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_tokens.repository import CONFIG_FILE
from tests.support import scripted_answers
from tests.support.scripted_answers import END, IMAGE, TEMPLATE
from tests.support.scripted_system import MODEL, SEER, TOKENIZER
from tests.support.system import System, up
from tests.support.triton import signature_config, triton_repository

CODE = Path(__file__).with_name("triton_models") / "answering.py"
_IMAGE_INPUT = '{ name: "image" data_type: TYPE_STRING dims: [ -1 ] optional: true }'
_CONFIGS = {
    MODEL: signature_config(MODEL_NAME, MODEL),
    SEER: signature_config("vllm_model", SEER, _IMAGE_INPUT),
}
_IMAGES = {MODEL: "refuse", SEER: "native"}


@asynccontextmanager
async def scripted_up(folder: Path, *options: str) -> AsyncIterator[System]:
    """Runs a system that is ready to answer, with its files in `folder`. `options` are further options of `antiphon
    up`."""
    repository = folder / "repository"
    for name, config in _CONFIGS.items():
        _write_model(repository / name, config)
    async with triton_repository(repository, *_CONFIGS) as triton:
        profiles = _write_profiles(folder / "profiles", triton.grpc_address)
        with up(folder / "data", "--profiles", str(profiles), *options) as system:
            yield system


def _write_model(folder: Path, config: str) -> None:
    """Writes a model's folder for Triton."""
    version = folder / "1"
    version.mkdir(parents=True)
    (folder / CONFIG_FILE).write_text(config, "utf-8")
    (version / "model.py").write_bytes(CODE.read_bytes())
    rules = Path(scripted_answers.__file__)
    (version / rules.name).write_bytes(rules.read_bytes())
    vocabulary = [TOKENIZER.bytes_of(token_id).decode("latin-1") for token_id in range(TOKENIZER.size)]
    (version / "vocabulary.json").write_bytes(dumps(vocabulary))


def _write_profiles(folder: Path, endpoint: str) -> Path:
    """Writes a profile for each model, and the model directory that both name."""
    weights = folder / "scripted"
    weights.mkdir(parents=True)
    TOKENIZER.library.save(str(weights / "tokenizer.json"))
    (weights / "tokenizer_config.json").write_bytes(dumps({"eos_token": END, "chat_template": TEMPLATE}))
    (weights / "config.json").write_bytes(dumps({"max_position_embeddings": 100_000}))
    for name, images in _IMAGES.items():
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\ndirectory = "scripted"\nendpoint = "{endpoint}"\ntriton_model = "{name}"\n'
            f'family = "hermes"\nimages = "{images}"\nimage_token = "{IMAGE}"\n',
            "utf-8",
        )
    return folder


async def _serve(port: str) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    with tempfile.TemporaryDirectory(prefix="scripted-up-") as folder:
        async with scripted_up(Path(folder), "--port", port) as system:
            print(system.url, flush=True)
            await stopping.wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1] if len(sys.argv) > 1 else "0"))
