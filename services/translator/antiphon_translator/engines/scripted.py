"""An engine that plays a script: for tests of everything around engines, and for demonstrations.

    ScriptedEngine([Emit([1, 2], [3]), Wait(0.5), Emit([4])])

Each generation plays the whole script. `Emit` is one delivery, each list in it one message of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, fields

from antiphon_core.errors import AntiphonError, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    GenerationRequest,
    Level,
    Sampling,
    TextChunk,
    TokenChunk,
)

ALL_CONTROLS = frozenset(member.name for member in fields(Sampling))


class Emit:
    """One delivery: all its messages arrive together."""

    def __init__(self, *messages: Sequence[int] | EngineChunk) -> None:
        self.chunks = tuple(map(_chunk, messages))


def _chunk(message: Sequence[int] | EngineChunk) -> EngineChunk:
    match message:
        case TokenChunk() | TextChunk() | ChatChunk():
            return message
    return TokenChunk(tuple(message))


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause without messages."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """A hang: nothing more arrives, and the generation does not end."""


@dataclass(frozen=True, slots=True)
class Break:
    """The generation ends with this error."""

    error: AntiphonError


Step = Emit | Wait | Hang | Break


class ScriptedEngine:
    """Plays a script, and records the requests."""

    level = Level.TOKENS

    def __init__(self, script: Sequence[Step], *, controls: frozenset[str] = ALL_CONTROLS) -> None:
        self.script = script
        self.requests: list[GenerationRequest] = []
        self.stopped = asyncio.Event()
        """Set when a generation was stopped before its end."""
        self.unavailable: str | None = None
        """The reason why the engine is not ready; None when it is."""
        self._controls = controls

    async def controls(self) -> frozenset[str]:
        return self._controls

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self.requests.append(request)
        has_ended = False
        try:
            for step in self.script:
                match step:
                    case Emit(chunks=chunks):
                        if flow.is_paused:
                            await flow.wait_until_open()
                        if not deliver(chunks):
                            return
                    case Wait(seconds=seconds):
                        await asyncio.sleep(seconds)
                    case Hang():
                        await asyncio.Event().wait()
                    case Break(error=error):
                        has_ended = True
                        raise error
            has_ended = True
        finally:
            if not has_ended:
                self.stopped.set()

    async def ready(self) -> None:
        if self.unavailable is not None:
            raise EngineUnavailable(self.unavailable)

    async def close(self) -> None:
        self.unavailable = "The engine is closed."
