"""Compaction through the real translator: the prompts of summaries, and the prompts after them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon_core.flow import Flow
from antiphon_core.jsons import Object
from antiphon_edge.compaction.compaction import CUT_NOTE, INSTRUCTION, SUMMARY_TOKENS_MAX
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ALL_CONTROLS, ScriptedEngine
from antiphon_translator.generation import GenerationRequest, TokenChunk
from antiphon_translator.prompt.conversation_items import SUMMARY_NOTE
from tests.support.in_process import System, running
from tests.support.prompts import ids_in
from tests.support.served_models import END_ID, model, tokenizer

LONG: Object = {"context_management": [{"type": "compaction", "compact_threshold": 20}]}


class Scribe(ScriptedEngine):
    """Summarizes when the prompt asks for a summary, and otherwise answers. Records its prompts."""

    def __init__(self) -> None:
        super().__init__([], controls=ALL_CONTROLS)
        self.prompts: list[str] = []
        self.is_endless = False
        """Whether a summary repeats its first word until it is stopped."""

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self.prompts.append(tokenizer().decode(ids_in(request)))
        line = "They talked of Rome." if INSTRUCTION[:40] in self.prompts[-1] else "Yes."
        ids = [*tokenizer().encode(line), END_ID]
        if self.is_endless and INSTRUCTION[:40] in self.prompts[-1]:
            ids = [ids[0]] * request.max_tokens
        deliver([TokenChunk([token]) for token in ids])


@asynccontextmanager
async def summarizing() -> AsyncIterator[tuple[System, Scribe]]:
    scribe = Scribe()
    async with running((model(name="m", context_length=100_000), scribe), workers=1) as system:
        yield system, scribe


async def test_a_long_chain_is_compacted_and_continued() -> None:
    async with summarizing() as (system, scribe):
        first = await system.create(input="Tell me of Rome.")
        second = await system.create(input="And of Ostia?", previous_response_id=first["id"], **LONG)
        assert [item["type"] for item in second["output"]] == ["compaction", "message"]
        summing, answering = scribe.prompts[-2:]
        assert "Yes." in summing
        assert "Yes." not in answering
        for text in ("Tell me of Rome.", "And of Ostia?", SUMMARY_NOTE.strip(), "They talked of Rome."):
            assert text in answering
        await system.create(input="Good.", previous_response_id=second["id"])
        last = scribe.prompts[-1]
        assert (
            last.index("And of Ostia?") < last.index("They talked of Rome.") < last.index("Yes.") < last.index("Good.")
        )


async def test_a_model_that_never_ends_its_summary_has_it_cut_off() -> None:
    talk = [{"role": "user", "content": "Tell me of Rome."}, {"role": "assistant", "content": "It is old."}]
    async with summarizing() as (system, scribe):
        scribe.is_endless = True
        for path, members in (("/v1/responses/compact", {"input": talk}), ("/v1/responses", {"input": talk, **LONG})):
            answer = await system.http.post(path, {"model": "m"} | members)
            assert answer.status == 200, answer.body
            (item,) = (item for item in answer.json["output"] if item["type"] == "compaction")
            (part,) = item["summary"]
            assert part["text"].startswith("They" * 100)
            assert part["text"].endswith(CUT_NOTE)
            assert answer.json["usage"]["output_tokens"] >= 2 * SUMMARY_TOKENS_MAX
            went_on = await system.create(input=[item, {"role": "user", "content": "Go on."}])
            assert went_on["status"] == "completed"
            assert CUT_NOTE.strip() in scribe.prompts[-1]


async def test_a_conversation_with_calls_is_compacted() -> None:
    talk: list[Object] = [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "sunny"},
    ]
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    async with summarizing() as (system, scribe):
        compacted = await system.http.post("/v1/responses/compact", {"model": "m", "input": talk})
        assert compacted.status == 200, compacted.body
        assert "sunny" in scribe.prompts[-1]
        answer = await system.create(input=compacted.json["output"], tools=[tool])
        assert answer["status"] == "completed"
        assert "sunny" not in scribe.prompts[-1]
        long = await system.create(input=talk, tools=[tool], tool_choice="auto", **LONG)
        assert [item["type"] for item in long["output"]] == ["compaction", "message"]


async def test_a_background_response_is_compacted_and_its_stream_is_complete() -> None:
    async with summarizing() as (system, _):
        talk = [
            {"role": "assistant", "content": "I know Rome."},
            {"role": "user", "content": "Tell me all of it, please."},
        ]
        for members in ({"input": talk, **LONG}, {"input": [*talk, {"type": "compaction_trigger"}]}):
            streamed = await system.http.create(model="m", background=True, stream=True, **members)
            assert streamed.status == 200, streamed.body
            log = streamed.events
            assert [event["sequence_number"] for event in log] == list(range(len(log)))
            ended = log[-1]["response"]
            assert (ended["status"], ended["output"][0]["type"]) == ("completed", "compaction")
            assert ended["output"][0]["encrypted_content"]
            stored = await system.http.get(f"/v1/responses/{ended['id']}")
            assert stored.json == ended
