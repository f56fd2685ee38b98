"""Measures a token at each step behind the engine, for a model that only talks.

Every row processes the same ids in the same process. `library` is one bare DecodeStream.step for each id, the lower
bound of all other rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from tokenizers.decoders import DecodeStream

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.ids import RandomIds
from antiphon_core.request.body import OUTPUT_LOGPROBS
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine
from antiphon_translator.generation import Alternative, TokenChunk, TokenLogprob
from antiphon_translator.output.machine import Append, Begin, OpenNext, ResponseMachine
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from antiphon_translator.tokenizer.tokens import Detokenizer
from benchmarks.measuring import print_table, work
from tests.support.pipelines import pipeline_of
from tests.support.served_models import RESPONSE_ID, model, tokenizer, turn

TEXT = "The quick brown fox jumps over the lazy dog, 3.14 times; naïve Größe 北京 ☃. " * 250
IDS = tokenizer().encode(TEXT)[:7000]
BATCH = 16
TOP = 5


def print_steps() -> None:
    rows = []
    for name, call in ROWS.items():
        done = work(call, _bare_detokenise)
        each_us = done.cpu_s / len(IDS) * 1e6
        rows.append([name, f"{len(IDS) / done.cpu_s:,.0f}", f"{each_us:.2f}", f"{done.ratio:.1f}"])
    print_table(f"Steps: {len(IDS):,} ids of plain text", ["", "ids/s", "us", "x library"], rows)


def _bare_detokenise() -> None:
    stream = DecodeStream([])
    for token_id in IDS:
        stream.step(tokenizer().library, token_id)


def _our_detokenise() -> None:
    feed = Detokenizer(tokenizer()).feed
    for token_id in IDS:
        feed(token_id)


def _machine_only() -> None:
    machine = ResponseMachine({"id": RESPONSE_ID, "output": []}, RandomIds())
    machine.send(Begin())
    machine.send(OpenNext())
    for _ in IDS:
        machine.send(Append(" token"))
        machine.take()


def _event_as_dict() -> None:
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


def _pipeline(batch: int) -> None:
    made = pipeline_of(model(), turn("Hi"), controls=ALL_CONTROLS, ids=RandomIds())
    made.start()
    for start in range(0, len(IDS), batch):
        made.receive([TokenChunk([token_id]) for token_id in IDS[start : start + batch]])
    made.finish(completed_at=0)


def _pipeline_with_logprobs(batch: int, top: int) -> None:
    """Measures the pipeline with log probabilities of each token and of `top` alternatives."""
    asked = turn("Hi", include=[OUTPUT_LOGPROBS], top_logprobs=top)
    made = pipeline_of(model(), asked, controls=ALL_CONTROLS | {"logprobs", "top_logprobs"}, ids=RandomIds())
    made.start()
    for start in range(0, len(IDS), batch):
        made.receive([TokenChunk([each], logprobs=[_scored(each, top)]) for each in IDS[start : start + batch]])
    made.finish(completed_at=0)


def _scored(token_id: int, top: int) -> TokenLogprob:
    return TokenLogprob(token_id, -0.5, tuple(Alternative(token_id + more, -0.5 - more) for more in range(top)))


def _service(batch: int) -> None:
    async def run() -> None:
        emits = [Emit(*([token_id] for token_id in IDS[start : start + batch])) for start in range(0, len(IDS), batch)]
        translator = TranslatorService(TranslatorSettings(), clock=SystemClock())
        translator.add(model(), ScriptedEngine(emits))
        await translator.generate(turn("Hi"), lambda batch: None)

    asyncio.run(run())


ROWS: dict[str, Callable[[], None]] = {
    "detokenise, bare library": _bare_detokenise,
    "detokenise, ours": _our_detokenise,
    "event as dict, for comparison": _event_as_dict,
    "machine + frame + batch": _machine_only,
    "pipeline, 1 id a batch": partial(_pipeline, 1),
    f"pipeline, {BATCH} ids a batch": partial(_pipeline, BATCH),
    f"the same, {TOP} alternatives each": partial(_pipeline_with_logprobs, BATCH, TOP),
    "service, 1 id a batch": partial(_service, 1),
    f"service, {BATCH} ids a batch": partial(_service, BATCH),
}
