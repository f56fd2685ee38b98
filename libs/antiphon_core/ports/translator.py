"""The port of the translator. protos/antiphon/translator/v1/translator.proto documents its messages and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from antiphon_core.flow import Flow
from antiphon_core.ports.store import Status
from antiphon_core.values import value


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn with its history. `request` is the create request without `input`; `history` and `input` are JSON arrays
    of items; `created_at` is in Unix seconds. `tenant` is the one whose share of the translator's resources it uses."""

    response_id: str
    created_at: int
    request: bytes
    history: bytes = b"[]"
    input: bytes = b"[]"
    tenant: str = field(default="default", kw_only=True)

    @property
    def size_bytes(self) -> int:
        """The size of the turn's JSON, which determines how long work on it takes (offload.py)."""
        return len(self.request) + len(self.history) + len(self.input)


@dataclass(frozen=True, slots=True)
class Resume:
    """The point from which to continue a turn that another translator began. `token_ids` are all that were generated so
    far; none means that only the opening events were sent. `next_sequence` is the number of the next event to send."""

    next_sequence: int
    token_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """The times of a turn that its engine measured, in nanoseconds: the wait in its queue, and the reading of the
    prompt. None: the engine does not report it."""

    queue_ns: int | None = None
    prefill_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Final:
    """A finished response in the two parts that the store keeps: `body` without `output`, and the output items.
    `times` are those of its engine."""

    status: Status
    body: bytes
    output_items: bytes
    times: EngineTimes = field(default=EngineTimes(), kw_only=True)


@value
class Batch:
    """Frames of events that were ready together.

    Only the last batch has a `final`, and its frame is the terminal event, which must be sent after the commit of the
    record. The last batch of a failed turn has all frames of the failure, so that a caller that retries the turn has
    not passed on any of them. `token_ids` are those generated since the batch before, if checkpoints were requested
    and the turn can be resumed from them."""

    first_sequence: int
    count: int
    frames: bytes
    final: Final | None = None
    token_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """A served model. `context_length` is the number of tokens of prompt and output together, 0 if unknown; `reason`
    says why the model is not ready."""

    id: str
    root: str
    context_length: int
    ready: bool
    created_at: int
    reason: str = ""


Receive = Callable[[Batch], None]
"""Takes the next batch of a turn. It never waits. The receiver that a translator is given never raises: the edge ends
the turn whose client or event log fails, and the translator goes on."""


class Translator(Protocol):
    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        """Runs one turn: calls `receive` with each batch as it is made, and returns after the one with the `final`.

        Cancelling the call stops the model within one token. While `flow` is paused the model's server is not read.

        With `checkpoints` the batches have token ids. `resume` continues a turn that another translator began: the turn
        must be the same, and the ids those of its batches. The events continue without a gap. InvalidRequest: this turn
        cannot have generated the ids of `resume`.

        Errors in the turn are raised before the first batch. After it only TranslatorUnavailable is raised, if the
        translator itself is lost: failures of the engine arrive as the last batch.
        """

    async def count_tokens(self, turn: Turn) -> int:
        """The exact number of prompt tokens that `generate` would send to the model. InvalidRequest: also for a model
        without a tokenizer."""

    async def check(self, turn: Turn) -> None:
        """Raises the error that `generate` would raise for this turn before its first batch. A turn for an engine that
        is down passes, if there is no other error."""

    async def models(self) -> Sequence[Model]: ...

    async def ready(self) -> None:
        """Returns if at least one model can be served. TranslatorUnavailable: none can; the message says why."""
