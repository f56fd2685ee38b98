"""What a token costs in the translator, against the least that it could cost. Prints tokens/s and ratios.

    python -m tests.bench.translator_bench

Every row handles the same ids in the same process. `detokenise` is the bare library: one DecodeStream.step per id, the
floor under everything else. Best of several rounds, because other work on the machine only ever adds time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from tokenizers.decoders import DecodeStream

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.ids import RandomIds
from antiphon_core.request import OUTPUT_LOGPROBS, Parameters
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine
from antiphon_translator.generation import Alternative, EngineChunk, TokenLogprob
from antiphon_translator.machine import Append, Begin, OpenNext, ResponseMachine
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from antiphon_translator.tokens import Detokenizer
from antiphon_translator.turn_prompt import TurnPrompt
from tests.support.served_models import message, model, tokenizer, turn

ROUNDS = 7
TEXT = "The quick brown fox jumps over the lazy dog, 3.14 times; naïve Größe 北京 ☃. " * 250
IDS = tokenizer().encode(TEXT)[:7000]
BATCH = 16
TOP = 5


def bare_detokenise() -> None:
    stream = DecodeStream([])
    for token in IDS:
        tokenizer().step(stream, token)


def our_detokenise() -> None:
    feed = Detokenizer(tokenizer()).feed
    for token in IDS:
        feed(token)


def machine_only() -> None:
    machine = ResponseMachine({"output": []}, RandomIds())
    machine.send(Begin())
    machine.send(OpenNext())
    for _ in IDS:
        machine.send(Append(" token"))
        machine.take()


def event_as_dict() -> None:
    for number, _ in enumerate(IDS):
        events.encode(
            {
                "type": "response.output_text.delta",
                "sequence_number": number,
                "item_id": "msg_" + 48 * "0",
                "output_index": 0,
                "content_index": 0,
                "delta": " token",
                "logprobs": [],
            }
        )


def pipeline(batch: int) -> None:
    made = TurnPipeline(model(), turn("Hi"), controls=ALL_CONTROLS, ids=RandomIds())
    made.start()
    for start in range(0, len(IDS), batch):
        made.receive([EngineChunk([token]) for token in IDS[start : start + batch]])
    made.finish(completed_at=0)


def pipeline_with_logprobs(batch: int, top: int) -> None:
    """Each token has its log probability, and `top` alternatives with theirs."""
    asked = turn("Hi", include=[OUTPUT_LOGPROBS], top_logprobs=top)
    made = TurnPipeline(model(), asked, controls=ALL_CONTROLS | {"logprobs", "top_logprobs"}, ids=RandomIds())
    made.start()
    for start in range(0, len(IDS), batch):
        made.receive([EngineChunk([token], logprobs=[scored(token, top)]) for token in IDS[start : start + batch]])
    made.finish(completed_at=0)


def scored(token: int, top: int) -> TokenLogprob:
    return TokenLogprob(token, -0.5, tuple(Alternative(token + more, -0.5 - more) for more in range(top)))


def service(batch: int) -> None:
    async def run() -> None:
        emits = [Emit(*([token] for token in IDS[start : start + batch])) for start in range(0, len(IDS), batch)]
        translator = TranslatorService(TranslatorSettings(), clock=SystemClock(), ids=RandomIds())
        translator.add(model(), ScriptedEngine(emits))
        async with aclosing(translator.generate(turn("Hi"))) as batches:
            async for _ in batches:
                pass

    asyncio.run(run())


ROWS: dict[str, Callable[[], None]] = {
    "detokenise, bare library": bare_detokenise,
    "detokenise, ours": our_detokenise,
    "event as dict, for comparison": event_as_dict,
    "machine + frame + batch": machine_only,
    "pipeline, 1 id per batch": lambda: pipeline(1),
    f"pipeline, {BATCH} ids per batch": lambda: pipeline(BATCH),
    f"the same, {TOP} alternatives each": lambda: pipeline_with_logprobs(BATCH, TOP),
    "service, 1 id per batch": lambda: service(1),
    f"service, {BATCH} ids per batch": lambda: service(BATCH),
}


def best_s(work: Callable[[], object]) -> float:
    """The shortest of several rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    floor = best_s(bare_detokenise)
    print(f"{len(IDS)} ids, best of {ROUNDS}; x = times the cost of the bare library\n")
    for name, work in ROWS.items():
        taken = best_s(work)
        rate, each_us = len(IDS) / taken, taken / len(IDS) * 1e6
        print(f"{name:34} {rate:>10,.0f} tokens/s {each_us:>7.2f} us/token {taken / floor:>6.1f} x")
    print()
    for length in (1, 10, 100):
        given = turn("x", history=[message("user", TEXT[:300]), message("assistant", TEXT[:300])] * length)
        parameters = Parameters.parse(given.request)
        taken = best_s(partial(TurnPrompt.of, model(), given, parameters))
        prompt = tokenizer().decode(TurnPrompt.of(model(), given, parameters).ids)
        encoding = best_s(partial(tokenizer().encode, prompt))
        print(
            f"prompt of {len(given.history):>6,} bytes: {taken * 1e3:>7.2f} ms, "
            f"{taken / encoding:.2f} x the cost of encoding it whole"
        )


if __name__ == "__main__":
    main()
