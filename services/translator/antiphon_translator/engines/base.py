"""The interface of an engine: an engine takes a prompt and streams what a model generates for the prompt.

An engine owns its connection to one served model and nothing else: it knows no template and no response. It raises
EngineUnavailable (retry elsewhere or later), EngineTimeout or EngineFault (the model server answered with an error of
its own); exceptions of libraries do not leave the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from antiphon_core.flow import Flow
from antiphon_translator.generation import EngineChunk, GenerationRequest, Level

DOWN_WAIT_S = 1.2
"""How long a turn waits for an endpoint that is known to be down: its caller is told soon. The question to the endpoint
goes on without the turn."""

Deliver = Callable[[Sequence[EngineChunk]], bool]
"""Takes chunks and answers whether more are wanted. It never waits. `Engine.generate` raises what it raises."""


class Engine(Protocol):
    """One served model."""

    @property
    def level(self) -> Level:
        """The form of the engine's input and output. An engine that learns its level from its server raises
        EngineUnavailable here until `controls` has answered."""

    async def controls(self) -> frozenset[str]:
        """The members of Sampling that this model honours, and of `guide`, `stop`, `ignore_eos`, `logprobs`,
        `top_logprobs`, `images`, `lora` those that it can be asked for; a request must set no others. May have to ask
        the model."""

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        """Runs one generation: calls `deliver` with everything that one read brought, never with nothing.

        Returns when the generation has ended, or when `deliver` answered that nothing more is wanted. Then, and when
        the call is cancelled, the generation is stopped at the other end. While `flow` is paused nothing is read.
        """

    async def ready(self) -> None:
        """Returns when the model could be asked now; raises EngineUnavailable or EngineTimeout, with the reason."""

    async def close(self) -> None:
        """Lets go of the connection. Generations that still run on it end with EngineUnavailable."""
