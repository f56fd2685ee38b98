"""What an engine is: something that turns a prompt into what a model writes, as it comes.

An engine owns its connection to one served model and nothing else: it knows no template and no response. It raises
EngineUnavailable (try elsewhere or later), EngineTimeout or EngineFault (it answered, with an error of its own);
exceptions of libraries do not leave it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from antiphon_translator.generation import EngineChunk, GenerationRequest, Level


class Engine(Protocol):
    """One served model."""

    @property
    def level(self) -> Level:
        """What it takes and gives. Of an engine that learns it from its server it is known once `controls` answered;
        before, this raises EngineUnavailable."""

    async def controls(self) -> frozenset[str]:
        """The members of Sampling that this model honours, and of `guide`, `stop`, `ignore_eos`, `logprobs`,
        `top_logprobs`, `images`, `lora` those that it can be asked for; a request must set no others. May have to ask
        the model."""

    def generate(self, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
        """What is generated, in batches: each has everything that was ready, never nothing.

        Ends when the generation has ended. Whoever iterates must close the generator (`aclosing`); closing it early, or
        cancelling the task that waits in it, stops the generation at the other end.
        """

    async def ready(self) -> None:
        """Returns when the model could be asked now; raises EngineUnavailable or EngineTimeout, with the reason."""

    async def close(self) -> None:
        """Lets go of the connection. Generations that still run on it end with EngineUnavailable."""
