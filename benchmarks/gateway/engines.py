"""Starts the fake engines, each a process of its own."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon_core.jsons import dumps
from benchmarks.gateway.subjects import Column, Subject
from tests.support.children import start_child
from tests.support.ports import HOST, free_ports

VOCABULARY = Path(__file__).parents[2] / "tests/support/smollm2"
TEMPLATE = Path(__file__).with_name("smollm2.jinja")  # of SmolLM2-135M-Instruct, Apache-2.0
CONTEXT_TOKENS = 2**20  # for inputs of a megabyte, and streams of a hundred thousand tokens


@dataclass(frozen=True, slots=True)
class Engines:
    """The running engines, and the model directory that belongs to them."""

    chat_port: int
    triton_port: int
    model_directory: Path

    @property
    def chat(self) -> Subject:
        """The chat engine as a subject: the cost of streams without a gateway."""
        return Subject(Column.ENGINE, HOST, self.chat_port, {}, path="/v1/chat/completions", is_engine=True)


@contextmanager
def engines(folder: Path, chat_port: int | None) -> Iterator[Engines]:
    """Starts both engines and waits until they are ready. The chat engine listens on `chat_port`, if given."""
    directory = write_model_directory(folder / "model")
    free, triton_port = free_ports(2)
    running = Engines(chat_port or free, triton_port, directory)
    tokenizer = str(directory / "tokenizer.json")
    with (
        _started("chat_engine", "--port", str(running.chat_port)),
        _started("triton_engine", "--port", str(triton_port), "--tokenizer", tokenizer),
    ):
        yield running


def write_model_directory(target: Path) -> Path:
    """Writes SmolLM2's tokenizer and template, with a context that no input of the bench fills."""
    shutil.copytree(VOCABULARY, target, ignore=shutil.ignore_patterns("*.gz", "*.jinja", "README.md"))
    shutil.copy(TEMPLATE, target / "chat_template.jinja")
    (target / "tokenizer.json").write_bytes(gzip.decompress((VOCABULARY / "tokenizer.json.gz").read_bytes()))
    (target / "config.json").write_bytes(dumps({"model_type": "llama", "max_position_embeddings": CONTEXT_TOKENS}))
    return target


@contextmanager
def _started(module: str, *arguments: str) -> Iterator[None]:
    process = start_child(
        [sys.executable, "-m", f"benchmarks.gateway.{module}", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"{module} did not start")
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
