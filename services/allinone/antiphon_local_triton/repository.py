"""Writes the model repository that the bundled Triton serves: `tensorrt_llm` on llama.cpp with a GGUF file.

The models are folders in model_repository/; only their config.pbtxt are templates. `TEXT_MODELS` serve the same GGUF
file with the text-level signatures of other Triton models. They are for tests. Each model loads the file again.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from antiphon_local_triton.errors import LocalModelError

MODEL_NAME = "tensorrt_llm"
TEXT_MODELS = ("ensemble", "tensorrt_llm_bls", "llmapi", "vllm_model")
TEMPLATE_REPOSITORY = Path(__file__).with_name("model_repository")
CONFIG_FILE = "config.pbtxt"
VERSION = "1"
_TEXT_CODE = TEMPLATE_REPOSITORY / "text_level"
_NO_CACHES = shutil.ignore_patterns("__pycache__")


def write_model_repository(
    out: Path,
    *,
    gguf: Path,
    context_length: int,
    slots: int,
    threads: int = 1,
    prefill_threads: int = 1,
    models: Sequence[str] = (MODEL_NAME,),
) -> Path:
    """Writes (or replaces) the repository folder `out` and returns it.

    `context_length` is in tokens, prompt and answer together, for each of the `slots` (generations that run at once).
    Memory for all slots is allocated when the model loads. More than one thread pays off only on cores that are
    otherwise idle, because llama.cpp's threads wait for each other at every layer. Raises LocalModelError if there is
    no such GGUF file, ValueError for a number that is not positive.
    """
    numbers = {
        "context_length": context_length,
        "slots": slots,
        "threads": threads,
        "prefill_threads": prefill_threads,
    }
    for name, number in numbers.items():
        if number <= 0:
            raise ValueError(f"{name} must be positive, got {number}")
    if not gguf.is_file():
        raise LocalModelError(f"There is no GGUF file {gguf}. Pass the path of an existing one with --gguf.")
    values = {"gguf_path": _pbtxt_string(str(gguf.resolve())), **numbers}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch) / "fresh"
        for name in models:
            _write_model(fresh / name, name, values)
        if out.exists():
            out.replace(Path(scratch) / "old")
        fresh.replace(out)
    return out


def _write_model(folder: Path, name: str, values: Mapping[str, object]) -> None:
    """Writes the folder of one model: its configuration, and the code that all models share."""
    shutil.copytree(TEMPLATE_REPOSITORY / MODEL_NAME / VERSION, folder / VERSION, ignore=_NO_CACHES)
    if name != MODEL_NAME:
        shutil.copytree(_TEXT_CODE, folder / VERSION, ignore=_NO_CACHES, dirs_exist_ok=True)
    config = (TEMPLATE_REPOSITORY / name / CONFIG_FILE).read_text("utf-8")
    (folder / CONFIG_FILE).write_text(Template(config).substitute(values), "utf-8")


def _pbtxt_string(text: str) -> str:
    """A quoted string in protobuf's text format, where the JSON string of a path is valid."""
    return json.dumps(text, ensure_ascii=False)
