"""Tries a token-level model of a running Triton: loads it, asks it, compares its ids with a tokenizer, and cancels."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import grpc
from tokenizers import Tokenizer
from tritonclient.grpc import service_pb2

from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError
from antiphon_core.flow import Flow
from antiphon_translator.engines import triton_tokens
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.generation import (
    CACHE_SALT,
    EngineChunk,
    EngineFacts,
    GenerationRequest,
    Sampling,
    TokenChunk,
    TokenPrompt,
)
from antiphon_translator.models.profiles import ModelProfile

PROMPT = "The capital of France is Paris. The capital of Italy is Rome. " * 16 + "The capital of Spain is"
"""Longer than a block of any cache, so that the second request finds some of it there."""
TOKENS, LONG = 8, 256
LOAD_TIMEOUT_S = 1_800.0

Finding = tuple[str, str, bool]
"""The name of a check, its result in words, and whether that is well."""


class Failed(Exception):
    """A check failed; the message says how."""


@dataclass
class Answer:
    """The chunks of one generation. It is cancelled behind `tokens_max` tokens."""

    tokens_max: int = LONG
    ids: list[int] = field(default_factory=list)
    chunks: list[TokenChunk] = field(default_factory=list)

    def deliver(self, chunks: Sequence[EngineChunk]) -> bool:
        for chunk in chunks:
            if isinstance(chunk, TokenChunk):
                self.chunks.append(chunk)
                self.ids.extend(chunk.ids)
        return len(self.ids) < self.tokens_max

    @property
    def facts(self) -> EngineFacts:
        reports = (chunk.facts for chunk in self.chunks if chunk.facts is not None)
        return reduce(EngineFacts.completed_by, reports, EngineFacts())


@dataclass
class Check:
    """The checks of one model, in their order."""

    engine: TritonEngine
    channels: TritonChannels
    profile: ModelProfile
    tokenizer: Tokenizer

    async def load(self) -> str:
        """Loads the model, where Triton lets clients do so; else it must be loaded already."""
        stub = self.channels.acquire(self.profile.endpoint).stub
        request = service_pb2.RepositoryModelLoadRequest(model_name=self.profile.triton_model)
        try:
            await stub.RepositoryModelLoad(request, timeout=LOAD_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            if "explicit" not in (error.details() or ""):
                raise Failed(str(error.details() or error.code().name)) from error
        finally:
            await self.channels.release(self.profile.endpoint)
        await self.engine.ready()
        return "ready"

    async def controls(self) -> str:
        return ", ".join(sorted(await self.engine.controls()))

    async def ids(self) -> str:
        answer = await self._ask(TOKENS)
        vocabulary = self.tokenizer.get_vocab_size(with_added_tokens=True)
        outside = [number for number in answer.ids if number >= vocabulary]
        if not answer.ids or outside:
            raise Failed(f"ids {outside or 'are missing'}: the tokenizer has {vocabulary}")
        text = self.tokenizer.decode(answer.ids, skip_special_tokens=False)
        return f"{len(answer.ids)} ids, which the tokenizer reads as {text!r}"

    async def repetition(self) -> str:
        first, second = [await self._ask(TOKENS) for _ in range(2)]
        if first.ids != second.ids:
            raise Failed(f"two greedy answers differ: {first.ids} and {second.ids}")
        return "two greedy answers have the same ids"

    async def cache_use(self) -> str:
        cached = (await self._ask(1)).facts.cached_tokens
        return "not reported" if cached is None else f"{cached} tokens of a prompt that was sent before"

    async def salts(self) -> str:
        """Asks under two new salts, and under the first one again."""
        if CACHE_SALT not in await self.engine.controls():
            return "not taken: tenants share what is cached"
        salts = [uuid.uuid4().hex, uuid.uuid4().hex]
        cached = [(await self._ask(1, salt=salt)).facts.cached_tokens for salt in (*salts, salts[0])]
        if cached[0] is None:
            return "taken"
        if cached[:2] != [0, 0]:
            raise Failed(f"the cached tokens of a prompt under two new salts are {cached[0]} and {cached[1]}")
        return f"two salts share nothing; under one salt {cached[2]} tokens are cached"

    async def times(self) -> str:
        facts = (await self._ask(1)).facts
        if facts.queue_ns is None or facts.prefill_ns is None:
            return "not reported"
        return f"{facts.queue_ns / 1e6:.1f} ms in the queue, {facts.prefill_ns / 1e6:.1f} ms to read the prompt"

    async def finish(self) -> str:
        reasons = [chunk.finish for chunk in (await self._ask(TOKENS)).chunks if chunk.finish is not None]
        return f"reported: {reasons[0].value}" if reasons else "not reported: it follows from the ids"

    async def cancellation(self) -> str:
        answer = Answer(tokens_max=2)
        await self.engine.generate(self._request(LONG), answer.deliver, Flow())
        await self._ask(1)
        return f"cancelled after {len(answer.ids)} ids, and answers again"

    async def _ask(self, tokens: int, *, salt: str | None = None) -> Answer:
        answer = Answer()
        await self.engine.generate(replace(self._request(tokens), cache_salt=salt), answer.deliver, Flow())
        return answer

    def _request(self, tokens: int) -> GenerationRequest:
        ids = tuple(self.tokenizer.encode(PROMPT, add_special_tokens=False).ids)
        return GenerationRequest(
            f"check-{uuid.uuid4().hex}", TokenPrompt(ids), max_tokens=tokens, sampling=Sampling(temperature=0.0)
        )


async def findings(address: str, name: str, tokenizer: Path) -> list[Finding]:
    """Runs the checks up to the first that fails, because the later ones need it.

    Raises:
        SettingsError: the folder has no tokenizer.json.
    """
    file = tokenizer / "tokenizer.json"
    if not file.is_file():
        raise SettingsError(f"There is no {file}. Pass the folder of the model's tokenizer with --tokenizer.")
    profile = ModelProfile(name=name, directory=tokenizer, endpoint=address, triton_model=name)
    channels = TritonChannels()
    engine = triton_tokens.engine(profile, channels)
    check = Check(engine, channels, profile, Tokenizer.from_file(str(file)))
    named: dict[str, Callable[[], Awaitable[str]]] = {
        "model": check.load,
        "controls": check.controls,
        "ids": check.ids,
        "repetition": check.repetition,
        "cached tokens": check.cache_use,
        "salts": check.salts,
        "times": check.times,
        "finish reason": check.finish,
        "cancellation": check.cancellation,
    }
    found: list[Finding] = []
    try:
        for each, run in named.items():
            found.append(await _finding(each, run))
            if not found[-1][2]:
                break
    finally:
        await engine.close()
    return found


async def _finding(name: str, run: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return name, await run(), True
    except Failed as error:
        return name, f"failed: {error}", False
    except AntiphonError as error:
        return name, f"failed: {error.message}", False
