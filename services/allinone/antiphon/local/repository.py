"""Writes the model repository that the bundled Triton serves: one model, `tensorrt_llm`, on one GGUF file.

The model itself is a folder beside this module; only its config.pbtxt is a template.
"""

import json
import shutil
import tempfile
from pathlib import Path
from string import Template

from antiphon.local.errors import LocalModelError

MODEL_NAME = "tensorrt_llm"
TEMPLATE_REPOSITORY = Path(__file__).with_name("model_repository")
CONFIG_FILE = "config.pbtxt"


def write_model_repository(
    out: Path,
    *,
    gguf: Path,
    context_length: int,
    slots: int,
    threads: int = 1,
    prefill_threads: int = 1,
) -> Path:
    """Writes (or replaces) the repository folder `out` and returns it.

    `context_length` is in tokens, prompt and answer together, for each of the `slots` generations that run at once;
    memory for all of them is taken when the model loads. More than one thread pays off only on cores that nothing
    else uses: llama.cpp's threads wait for each other at every layer. Raises LocalModelError when there is no such
    GGUF file, ValueError on a number that is not positive.
    """
    for name, number in {"context_length": context_length, "slots": slots, "threads": threads}.items():
        if number <= 0:
            raise ValueError(f"{name} must be positive, got {number}")
    if not gguf.is_file():
        raise LocalModelError(f"There is no GGUF file {gguf}. Pass the path of an existing one with --gguf.")
    values = {
        "gguf_path": _pbtxt_string(str(gguf.resolve())),
        "context_length": context_length,
        "slots": slots,
        "threads": threads,
        "prefill_threads": prefill_threads,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch) / "fresh"
        shutil.copytree(TEMPLATE_REPOSITORY, fresh, ignore=shutil.ignore_patterns("__pycache__"))
        config = fresh / MODEL_NAME / CONFIG_FILE
        config.write_text(Template(config.read_text("utf-8")).substitute(values), "utf-8")
        if out.exists():
            out.replace(Path(scratch) / "old")
        fresh.replace(out)
    return out


def _pbtxt_string(text: str) -> str:
    """A quoted string of protobuf's text format, which for a path is also a JSON string."""
    return json.dumps(text, ensure_ascii=False)
