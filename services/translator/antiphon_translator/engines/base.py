"""The interface of an engine: an engine takes a prompt and streams what a model generates for the prompt.

An engine owns its connection to one served model and nothing else: it knows no template and no response. It raises
EngineUnavailable (retry elsewhere or later), EngineTimeout, EngineFault (the model server failed) or InvalidRequest
(the model server rejects the request); exceptions of libraries do not leave the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from antiphon_core.flow import Flow
from antiphon_translator.generation import EngineChunk, GenerationRequest, Level

DOWN_WAIT_S = 1.2
"""Seconds that a turn waits for an endpoint that is known to be down, before the turn fails. The probe of the endpoint
goes on."""

Deliver = Callable[[Sequence[EngineChunk]], bool]
"""Takes chunks and returns whether more are wanted. It never waits. `Engine.generate` raises its exceptions."""


class Engine(Protocol):
    """One served model."""

    @property
    def level(self) -> Level:
        """The form of the engine's input and output. An engine that learns its level from its server raises
        EngineUnavailable here until `controls` has answered."""

    async def controls(self) -> frozenset[str]:
        """The controls that this model supports: members of Sampling, and of `guide` (JSON, with or without a
        schema), `text_guide` (a regular expression or a grammar), `stop`, `ignore_eos`, `logprobs`, `top_logprobs`,
        `images`, `lora`, `cache_salt`, and at Level.CHAT `switches`. A request must set no others, but may have
        switches that the engine leaves out. May ask the model's server."""

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        """Runs one generation: calls `deliver` once for each read, with all chunks of that read, never with none.

        Returns when the generation has ended, or when `deliver` returns that nothing more is wanted. Then, and when
        the call is cancelled, the server stops generating. While `flow` is paused nothing is read.
        """

    async def ready(self) -> None:
        """Returns if the model can serve now; raises EngineUnavailable or EngineTimeout, with the reason."""

    async def close(self) -> None:
        """Closes the connection. Generations that still run on it end with EngineUnavailable."""
