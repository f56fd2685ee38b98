"""The port of the translator. protos/antiphon/translator/v1/translator.proto documents its messages and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from antiphon_core.flow import Flow
from antiphon_core.ports.store import Status
from antiphon_core.values import value


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """The times of a turn that its engine measured, in nanoseconds: the wait in its queue, and the reading of the
    prompt. None: the engine does not report it."""

    queue_ns: int | None = None
    prefill_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Exact token counts. Output tokens include the id that ended the generation. Reasoning tokens are a part of the
    output tokens; cached tokens are the part of the input tokens that the server had in its cache, None where it does
    not report them. `times` are those that the engine measured. `lost_to` is the cause for which it had fewer cached
    tokens than expected (antiphon_translator/lineage/cache_loss.py), where its endpoints tell; it stays in the
    translator."""

    input_tokens: int
    output_tokens: int
    reasoning_tokens: int = 0
    cached_tokens: int | None = None
    times: EngineTimes = field(default=EngineTimes())
    lost_to: str = ""

    def behind(self, first: Usage) -> Usage:
        """This usage of a second generation that goes on behind a `first` one. What the engine reports of the prompt
        is that of the first: the second one finds in its cache what the first one has just put there."""
        return replace(self, cached_tokens=first.cached_tokens, times=first.times, lost_to=first.lost_to)

    def added_to(self, earlier: Usage) -> Usage:
        """The tokens of this round and of the earlier ones."""
        reported = [each for each in (self.cached_tokens, earlier.cached_tokens) if each is not None]
        return replace(
            self,
            input_tokens=self.input_tokens + earlier.input_tokens,
            output_tokens=self.output_tokens + earlier.output_tokens,
            reasoning_tokens=self.reasoning_tokens + earlier.reasoning_tokens,
            cached_tokens=sum(reported) if reported else None,
        )


NO_USAGE = Usage(0, 0)
NO_ITEMS = b"[]"


class ServerTool(NamedTuple):
    """A tool of a tool server."""

    server_label: str
    name: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn with its history. `request` is the create request without `input`; `history` and `input` are JSON arrays
    of items; `created_at` is in Unix seconds. `tenant` is the one whose share of the translator's resources it uses.
    `lineages` are those of the ancestors' `Final`, root first, empty for an ancestor without one.

    A turn that calls tools of servers is generated in rounds. `output` is a JSON array: the items of its response
    before this round. `used` are the tokens of the earlier rounds, `round_lineage` is that of the `Pause` before,
    and in the first round that of the turn whose conversation the input resends.
    `approval_tools` are the tools of servers whose calls need an approval: such a call becomes a request for it. If
    `output` has such requests, or calls in progress, which were approved, the round generates nothing: it sends the
    events of these items, and pauses.

    Turns with different values of `cache_salt` share no cached prompt, where the model's profile isolates tenants; it
    is empty where the edge has no secret for it. `compared` is the response that the request wants to be compared with
    (`prompt_cache_options.comparison_response_id`), None if the tenant has no such response."""

    response_id: str
    created_at: int
    request: bytes
    history: bytes = NO_ITEMS
    input: bytes = NO_ITEMS
    lineages: Sequence[bytes] = field(default=(), kw_only=True)
    output: bytes = field(default=NO_ITEMS, kw_only=True)
    used: Usage = field(default=NO_USAGE, kw_only=True)
    round_lineage: bytes = field(default=b"", kw_only=True)
    approval_tools: Sequence[ServerTool] = field(default=(), kw_only=True)
    tenant: str = field(default="default", kw_only=True)
    cache_salt: str = field(default="", kw_only=True, repr=False)
    compared: EndedTurn | None = field(default=None, kw_only=True, repr=False)
    size_bytes: int = field(init=False, repr=False, compare=False)
    """The size of the turn's JSON and lineages, which determines how long work on it takes (offload.py)."""

    def __post_init__(self) -> None:
        texts = self.request, self.history, self.input, self.output, self.round_lineage
        size = sum(map(len, texts)) + sum(map(len, self.lineages))
        object.__setattr__(self, "size_bytes", size if self.compared is None else size + self.compared.size_bytes)


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A response that has ended, as it was made: its turn without earlier rounds, its output as a JSON array of items,
    and the lineage of its `Final`. The turn of a response that could not be read has an empty request."""

    turn: Turn
    output_items: bytes = NO_ITEMS
    lineage: bytes = b""

    @property
    def is_unread(self) -> bool:
        return not self.turn.request

    @property
    def size_bytes(self) -> int:
        """The size of its JSON and lineages."""
        return self.turn.size_bytes + len(self.output_items) + len(self.lineage)


@dataclass(frozen=True, slots=True)
class Resume:
    """The point from which to continue a turn that another translator began. `token_ids` are all that were generated so
    far in this round; none means that the round has sent nothing. `next_sequence` is the number of the next event to
    send. `sent_items` is the number of items in `Turn.output` whose events were sent: the translator sends those of the
    others before the round."""

    next_sequence: int
    token_ids: Sequence[int] = ()
    sent_items: int = 0


@dataclass(frozen=True, slots=True)
class Final:
    """A finished response in the parts that the store keeps: `body` without `output`, the output items, and a `lineage`
    that only translators read. `times` are those of its engine."""

    status: Status
    body: bytes
    output_items: bytes
    lineage: bytes = field(default=b"", kw_only=True)
    times: EngineTimes = field(default=EngineTimes(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Pause:
    """The end of a round that called tools of servers.

    `output_items` is a JSON array: the output so far, in which these calls have the status `in_progress`. `used` are
    the tokens so far. `cut_off` is the reason if the model was cut off, as in `incomplete_details`: no further round
    may follow. `lineage` is that of `Final` if none follows, and covers all rounds so far."""

    output_items: bytes
    used: Usage
    cut_off: str = ""
    lineage: bytes = b""


@value
class Batch:
    """Frames of events that were ready together.

    Only the last batch has a `final`, and its frame is the terminal event, which must be sent after the commit of the
    record. The last batch of a failed turn has all frames of the failure, so that a caller that retries the turn has
    not passed on any of them. The last batch of a round that called tools of servers has a `pause` in place of the
    `final`. `token_ids` are those generated since the batch before, if checkpoints were requested
    and the turn can be resumed from them."""

    first_sequence: int
    count: int
    frames: bytes
    final: Final | None = None
    token_ids: Sequence[int] = ()
    pause: Pause | None = None

    @property
    def is_last(self) -> bool:
        """Whether no batch follows in this round."""
        return self.final is not None or self.pause is not None


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
        """Runs one round of a turn: calls `receive` with each batch as it is made, and returns after the one with the
        `final` or the `pause`. A turn without tools of servers has one round.

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

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        """Explains which part of a response's prompt was in the engine's cache, and why the rest was not. Returns a
        JSON object, as the API shows it. Without `compared` it has what the lineage says."""

    async def models(self) -> Sequence[Model]: ...

    async def ready(self) -> None:
        """Returns if at least one model can be served. TranslatorUnavailable: none can; the message says why."""
