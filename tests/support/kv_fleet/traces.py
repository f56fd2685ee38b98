"""Recorded requests: the traces of Mooncake (benchmarks/traces)."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon_translator.placement import RootPrefix
from tests.support.kv_fleet.blocks import BLOCK_TOKENS, Chain
from tests.support.kv_fleet.replica import Work

FOLDER = Path(__file__).parents[3] / "benchmarks/traces"
HASHED_TOKENS = 512
"""Tokens of a block of the traces."""


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One request. A trace has no system messages: its first block stands for the root."""

    number: int
    at_s: float
    input_tokens: int
    output_tokens: int
    hashes: Sequence[int]

    @property
    def whole_blocks(self) -> int:
        """The blocks of the prompt that lie in whole blocks of the trace: a prompt that goes on has the others anew."""
        return self.input_tokens // HASHED_TOKENS * (HASHED_TOKENS // BLOCK_TOKENS)

    def work(self) -> Work:
        prompt, left = Chain(), self.input_tokens
        for hashed in self.hashes:
            tokens = min(HASHED_TOKENS, left)
            prompt.add(tokens, b"block %d" % hashed)
            left -= tokens
        whole = prompt.copy().add(self.output_tokens, b"output %d" % self.number)
        return Work(prompt, whole, self.output_tokens)

    def root(self) -> RootPrefix:
        return RootPrefix(str(self.hashes[0]), min(HASHED_TOKENS, self.input_tokens))


def load(name: str) -> list[TraceLine]:
    """The requests of a trace in their order."""
    lines = lzma.decompress((FOLDER / f"{name}.jsonl.xz").read_bytes()).splitlines()
    return [_line(number, json.loads(line)) for number, line in enumerate(lines)]


def _line(number: int, given: Any) -> TraceLine:
    match given:
        case {
            "timestamp": int(at_ms),
            "input_length": int(tokens),
            "output_length": int(output),
            "hash_ids": [*hashes],
        }:
            return TraceLine(number, at_ms / 1000, tokens, output, hashes)
    raise ValueError(f"line {number} of the trace is no request")
