"""The translator as its callers see it. Meaning and errors: protos/antiphon/translator/v1/translator.proto."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from antiphon_core.flow import Flow
from antiphon_core.ports.store import Status
from antiphon_core.values import value


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn with everything before it. `request` is the create request without `input`; `history` and `input` are
    JSON arrays of items; `created_at` is in Unix seconds. `tenant` is for shares of what turns have in common."""

    response_id: str
    created_at: int
    request: bytes
    history: bytes = b"[]"
    input: bytes = b"[]"
    tenant: str = field(default="default", kw_only=True)

    @property
    def size_bytes(self) -> int:
        """How much JSON the turn is: how long work on it takes (offload.py)."""
        return len(self.request) + len(self.history) + len(self.input)


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to go on with a turn that another translator began: `token_ids` are all that were generated so far, and
    the first event to be sent has the number `next_sequence`. Without ids only the opening of the stream was sent."""

    next_sequence: int
    token_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Final:
    """A finished response in the parts that the store keeps: `body` has no `output`, `output_items` is its `output`."""

    status: Status
    body: bytes
    output_items: bytes


@value
class Batch:
    """Events that were ready together, framed for the wire. Only the last batch has a `final`: its last frame is the
    terminal event, to be sent after the record was committed. It is the only one, unless the turn failed: then all that
    belongs to the failure comes with it, and whoever does not accept that end has seen nothing of it. `token_ids` are
    those that were generated since the batch before, where they were asked for and the turn can be resumed by them."""

    first_sequence: int
    count: int
    frames: bytes
    final: Final | None = None
    token_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """`context_length` is prompt and output together, in tokens, 0 where it is not known; `reason` says why a model is
    not ready."""

    id: str
    root: str
    context_length: int
    ready: bool
    created_at: int
    reason: str = ""


Receive = Callable[[Batch], None]
"""Takes the next batch of a turn. It never waits and never raises."""


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

        With `checkpoints` the batches carry token ids. With `resume` a turn goes on that another translator began: the
        same turn, and what its batches carried; the events go on as if nothing had happened. InvalidRequest: ids are
        resumed from that this turn cannot have given.

        Raises before the first batch for what is wrong with the turn; afterwards only TranslatorUnavailable, when
        the translator itself was lost: failures of the engine arrive as a final batch.
        """

    async def count_tokens(self, turn: Turn) -> int:
        """The exact number of prompt tokens that `generate` would send."""

    async def models(self) -> Sequence[Model]: ...

    async def ready(self) -> None:
        """Returns when at least one model can be served; raises TranslatorUnavailable with the reason otherwise."""
