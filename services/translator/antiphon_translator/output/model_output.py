"""The protocols of a generation's output: what the pipeline, guides and log probabilities read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from antiphon_core.ports.translator import Usage
from antiphon_translator.generation import EngineChunk, FinishReason, GenerationRequest
from antiphon_translator.parsing.segments import Segment


class ModelOutput(Protocol):
    """The output of one generation, read chunk by chunk."""

    @property
    def finish(self) -> FinishReason | None:
        """Why the generation ended; None while more chunks are wanted."""

    def write(self, text: str) -> list[Segment]:
        """Reads text that the server wrote for the model, such as the beginning of a forced call. It is parsed like the
        model's output, and not counted."""

    def take(self, chunk: EngineChunk) -> Sequence[Segment]:
        """Reads a chunk, and returns the segments that it completes."""

    def end(self, *, cut_off: bool) -> list[Segment]:
        """Returns the last segments when no more chunks come. `cut_off`: the output ended before the model was done."""

    def usage(self) -> Usage:
        """The usage so far."""

    @property
    def written_ids(self) -> Sequence[int]:
        """The ids that the engine wrote, without the one that ended the generation; none where it delivers no ids."""

    @property
    def uncounted_bytes(self) -> int:
        """The bytes of output that `usage` has to encode, because the server has not counted them. That may take long,
        so it must not run on the event loop."""

    @property
    def must_count_prompt(self) -> bool:
        """Whether `usage` also has to encode the prompt."""

    @property
    def reads_to_the_end(self) -> bool:
        """Whether the generation is read to its end although no more output is wanted: only then does its server say
        how many tokens there were, in prompt and output."""

    def follow_up(self) -> GenerationRequest | None:
        """The request for a further generation of the turn, or None. Called when no more chunks come, or no more are
        wanted."""


class ReadOutput(ModelOutput, Protocol):
    """The output of an engine of ids or text. A further generation can continue it."""

    def take(self, chunk: EngineChunk) -> list[Segment]: ...

    @property
    def is_in_reasoning(self) -> bool:
        """Whether the next chunk is reasoning, as far as the output so far tells."""

    @property
    def may_be_stopped(self) -> bool:
        """Whether a stop text ended the output, or may have ended it on the server."""

    def resume(self, chunk: EngineChunk) -> None:
        """Reads the output of an earlier generation, which was sent already. This generation continues it."""
