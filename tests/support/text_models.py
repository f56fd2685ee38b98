"""Text-level models on llama.cpp: the packaged model with each signature that a fleet may have.

Their code, and the templates of their configurations, are in `triton_models/text_level`. They run on the engine of
antiphon_tokens. Each model loads the file again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from antiphon_tokens import arguments, repository
from antiphon_tokens.repository import CONFIG_FILE, VERSION

TEXT_MODELS = ("ensemble", "tensorrt_llm_bls", "llmapi", "vllm_model")
FOLDER = Path(__file__).with_name("triton_models") / "text_level"


def config_of(name: str) -> str:
    """The configuration of a text-level model."""
    return (FOLDER / f"{name}.pbtxt").read_text("utf-8")


def write(out: Path, name: str, *, gguf: Path, context_length: int, slots: int) -> None:
    """Adds a text-level model to the repository folder `out`."""
    version = out / name / VERSION
    repository.write_code(version)
    for path in FOLDER.glob("*.py"):
        shutil.copy(path, version)
    given = {"model": str(gguf), "context_length": context_length, "slots": slots}
    (version / arguments.FILE).write_text(arguments.to_text(given, ""), "utf-8")
    (out / name / CONFIG_FILE).write_text(config_of(name), "utf-8")
