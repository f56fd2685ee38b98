"""Model servers of a fleet that keep blocks of real token ids, and a translator before them.

Prompts are made by real templates and tokenizers; the choice of a server is the translator's own. A response is kept as
an edge keeps it, so that it can be compared with another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from antiphon_core.clock import ManualClock
from antiphon_core.flow import Flow
from antiphon_core.ids import DerivedIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Batch, EndedTurn, Turn
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import (
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Level,
    ReportedUsage,
    TextChunk,
    TextPrompt,
    TokenChunk,
    TokenPrompt,
)
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.placement import placement_of
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.kv_fleet.kv_cache import KvCache

BLOCK_TOKENS = 8


@dataclass
class PromptReplica:
    """A server that answers each request with the ids in `answers`, and caches their blocks. `seen` has the ids of each
    prompt and of what was written behind it, by the id of the response."""

    name: str
    answers: Mapping[str, Sequence[int]]
    tokenizer: ModelTokenizer
    seen: dict[str, list[int]]
    level: Level = Level.TOKENS
    cache: KvCache = field(default_factory=lambda: KvCache(10_000))

    async def controls(self) -> frozenset[str]:
        return ALL_CONTROLS | {"images"}

    async def ready(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        is_text = self.level is Level.TEXT
        ids = (
            self.tokenizer.encode(request.prompt_as(TextPrompt).text)
            if is_text
            else list(request.prompt_as(TokenPrompt).ids)
        )
        written = list(self.answers[request.request_id])
        self.seen[request.request_id] = [*ids, *written]
        salt = request.cache_salt or ""
        cached = min(self.cache.match(list(_blocks(ids, salt))).device * BLOCK_TOKENS, len(ids))
        self.cache.use(list(_blocks([*ids, *written], salt)))
        place = placement_of(self.name)
        if is_text:
            usage = ReportedUsage(len(ids), len(written), cached_tokens=cached)
            text = self.tokenizer.decode(written)
            deliver([TextChunk(text, finish=FinishReason.STOP, usage=usage, placement=place)])
        else:
            deliver([TokenChunk(written, facts=EngineFacts(cached), placement=place)])
            deliver([TokenChunk(finish=FinishReason.STOP)])


def _blocks(ids: Sequence[int], salt: str) -> Iterator[bytes]:
    state = sha256(salt.encode()).digest()
    for at in range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        state = sha256(state + repr(ids[at : at + BLOCK_TOKENS]).encode()).digest()
        yield state


class PromptFleet:
    """Two servers of one model, and a translator before them."""

    def __init__(self, model: ServedModel, *, level: Level = Level.TOKENS) -> None:
        self.clock = ManualClock(now_ms=1_790_000_000_000)
        self.seen: dict[str, list[int]] = {}
        self.replicas = [PromptReplica(name, {}, model.tokenizer, self.seen, level) for name in "ab"]
        self.model = model
        self._answers: dict[str, Sequence[int]] = {}
        for replica in self.replicas:
            replica.answers = self._answers
        self.service = self.translator()

    def translator(self, model: ServedModel | None = None) -> TranslatorService:
        """Another translator before these servers. It remembers nothing of the first one."""
        made = TranslatorService(TranslatorSettings(), clock=self.clock, ids_of=DerivedIds)
        engine = EndpointsEngine({each.name: each for each in self.replicas}, self.clock)
        made.add(model or self.model, engine)
        return made

    async def run(
        self, turn: Turn, written: Sequence[int], *, service: TranslatorService | None = None
    ) -> tuple[EndedTurn, Object]:
        """Runs a turn in which the model writes these ids. Returns it as it ended, and the body of its response."""
        self._answers[turn.response_id] = written
        batches: list[Batch] = []
        await (service or self.service).generate(turn, batches.append)
        final = batches[-1].final
        assert final is not None
        body: Object = loads(final.body)
        assert body["status"] == "completed", body["error"]
        self.clock.advance(5)
        return EndedTurn(replace(turn, compared=None), final.output_items, final.lineage), body

    async def explain(self, now: EndedTurn, before: EndedTurn | None) -> Object:
        report: Object = loads(await self.service.explain_cache(now, before))
        return report

    def shared_tokens(self, one: EndedTurn, other: EndedTurn) -> int:
        """The ids at the beginning of what the servers computed for both."""
        both = [self.seen[each.turn.response_id] for each in (one, other)]
        return next(
            (at for at, (left, right) in enumerate(zip(*both, strict=False)) if left != right), min(map(len, both))
        )


def continuing(ended: EndedTurn, response_id: str, *given: Object, created_at: int = 0, **changes: object) -> Turn:
    """The next turn of a conversation: the items so far, new ones, and changes of the request."""
    turn = ended.turn
    history = [*loads(turn.history), *loads(turn.input), *loads(ended.output_items)]
    request = {name: value for name, value in (loads(turn.request) | changes).items() if value is not None}
    return replace(
        turn,
        response_id=response_id,
        created_at=created_at or turn.created_at + 5,
        request=dumps(request),
        history=dumps(history),
        input=dumps(list(given)),
        lineages=(*turn.lineages, ended.lineage),
    )
