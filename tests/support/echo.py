"""A fourth engine of the token-level model, for the test that it needs no other file: it answers with its prompt."""

import asyncio
from collections.abc import Mapping
from itertools import cycle
from types import SimpleNamespace
from typing import Any

from antiphon_tokens import signature
from antiphon_tokens.arguments import Arguments
from antiphon_tokens.engine import Capabilities, Listener
from antiphon_tokens.generation import Facts, Generation, Limits, Token
from antiphon_tokens.generation_loop import GenerationLoop, LoopEngine, Step, Steps

FEATURES = frozenset({signature.PERF_METRICS})
ARGUMENTS = {"context_length": 256}


def load(arguments: Mapping[str, Any], wanted: frozenset[str]) -> "EchoEngine":
    taken = Arguments(arguments)
    title, limits = f"echo of {taken.text('model')}", Limits(context_length=taken.number("context_length", 256))
    taken.require_none_left("echo")
    return EchoEngine(Capabilities(title, FEATURES & wanted, limits))


class EchoEngine(LoopEngine):
    """Repeats the prompt of a generation, an id each millisecond, until it ends."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__(SimpleNamespace(shutdown=lambda: None), GenerationLoop(), capabilities)

    def submit(self, generation: Generation, listener: Listener) -> None:
        self._loop.start(_steps(generation), listener)


async def _steps(generation: Generation) -> Steps:
    for number in cycle(generation.prompt):
        yield Step([Token(number)], Facts(cached_tokens=0, queue_ns=1, prefill_ns=2))
        await asyncio.sleep(0.001)
