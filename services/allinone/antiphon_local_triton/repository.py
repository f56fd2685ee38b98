"""Writes the model repository that the bundled Triton serves: one token-level model of antiphon_tokens on llama.cpp."""

import tempfile
from pathlib import Path

from antiphon_local_triton.errors import LocalModelError
from antiphon_tokens import repository
from antiphon_tokens.repository import Model

MODEL_NAME = "tensorrt_llm"
ENGINE = "llama_cpp"


def write_model_repository(
    out: Path, *, gguf: Path, context_length: int, slots: int, threads: int = 1, prefill_threads: int = 1
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
    model = Model(MODEL_NAME, ENGINE, {"model": str(gguf.resolve()), **numbers})
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch) / "fresh"
        repository.write(fresh, model)
        if out.exists():
            out.replace(Path(scratch) / "old")
        fresh.replace(out)
    return out
