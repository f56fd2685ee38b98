"""A model server of the fleet, as an engine: one prefill after the other, in the order of arrival, and a KV cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from antiphon_core.errors import EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import EngineFacts, FinishReason, GenerationRequest, Level, TokenChunk
from antiphon_translator.placement import placement_of
from tests.support.kv_fleet.blocks import BLOCK_TOKENS, Chain
from tests.support.kv_fleet.kv_cache import NORMAL, KvCache, class_of

PREFILL_TOKENS_PER_S = 16_000.0
"""llm-d's 15,928 of Qwen 32B on two H100."""
HOST_TOKENS_PER_S = 160_000.0
"""Tokens whose blocks come back from the host's memory in a second: ten times as many as are prefilled."""
FIXED_S = 0.012
TOKEN_S = 0.020


@dataclass(frozen=True, slots=True)
class Work:
    """One turn for a model server: the prompt, and the prompt with the output."""

    prompt: Chain
    whole: Chain
    output_tokens: int


def _class_of(request: GenerationRequest) -> int:
    """The class of a request's blocks: that of the rest of its prompt, behind what it shares."""
    return NORMAL if request.retention is None else class_of(request.retention.ranges[-1].priority)


class Replica:
    """Serves the work that `works` has for the id of a request, which stands for the token ids."""

    level = Level.TOKENS

    def __init__(self, name: str, works: Mapping[str, Work], *, kv_tokens: int, host_tokens: int = 0) -> None:
        self.name = name
        self.cache = KvCache(kv_tokens // BLOCK_TOKENS, host_max=host_tokens // BLOCK_TOKENS)
        self.generations = 0
        self.cached_tokens = self.uncached_tokens = 0
        self.waiting = self.running = 0
        self.backlog_tokens = 0
        """Tokens of prompts that wait or are prefilled, less those that were cached when they came."""
        self.is_up = True
        self._works = works
        self._prefill = asyncio.Lock()
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order of their arrival, in which they end when the replica stops."""

    async def controls(self) -> frozenset[str]:
        return frozenset()

    async def ready(self) -> None:
        if not self.is_up:
            raise EngineUnavailable("The replica is down.")

    async def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops the server: its generations are lost, and its cache is empty."""
        self.is_up = False
        self.cache.clear()
        for task in list(self._tasks):
            task.cancel()

    def start(self) -> None:
        self.is_up = True

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        await self.ready()
        priority = _class_of(request)
        task = asyncio.create_task(self._serve(self._works[request.request_id], priority, deliver))
        self._tasks[task] = None
        try:
            await asyncio.wait({task})
        finally:
            del self._tasks[task]
            task.cancel()
        if task.cancelled():
            raise EngineUnavailable("The replica stopped.")
        task.result()

    async def _serve(self, work: Work, priority: int, deliver: Deliver) -> None:
        came_s = asyncio.get_running_loop().time()
        facts = await self._run_prefill(work, priority, came_s)
        self.generations += work.output_tokens > 0
        self.running += 1
        try:
            deliver([TokenChunk((1,), facts=facts, placement=placement_of(self.name))])
            await asyncio.sleep(work.output_tokens * TOKEN_S)
            self.cache.use(work.whole.blocks, priority)
            deliver([TokenChunk((), FinishReason.STOP)])
        finally:
            self.running -= 1

    async def _run_prefill(self, work: Work, priority: int, came_s: float) -> EngineFacts:
        blocks, tokens = work.prompt.blocks, work.prompt.tokens
        expected = tokens - self.cache.match(blocks).device * BLOCK_TOKENS
        self.waiting += 1
        self.backlog_tokens += expected
        try:
            async with self._prefill:
                began_s = asyncio.get_running_loop().time()
                found = self.cache.match(blocks)
                cached = (found.device + found.host) * BLOCK_TOKENS
                loaded_s = found.host * BLOCK_TOKENS / HOST_TOKENS_PER_S
                prefill_s = FIXED_S + loaded_s + (tokens - cached) / PREFILL_TOKENS_PER_S
                await asyncio.sleep(prefill_s)
                self.cache.use(blocks, priority)
        finally:
            self.waiting -= 1
            self.backlog_tokens -= expected
        self.cached_tokens += cached
        self.uncached_tokens += tokens - cached
        return EngineFacts(cached, round((began_s - came_s) * 1e9), round(prefill_s * 1e9))

    def metrics(self) -> str:
        """The answer to GET /metrics, with the names of TensorRT-LLM's backend of Triton."""
        requests = {"waiting": self.waiting, "scheduled": self.running, "active": self.waiting + self.running}
        lines = [f'nv_trt_llm_request_metrics{{request_type="{kind}"}} {count}' for kind, count in requests.items()]
        return "\n".join(lines)
