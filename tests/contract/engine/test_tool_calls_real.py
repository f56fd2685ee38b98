"""Tool calls from a real Triton: outputs of several model families become equal reasoning, text and calls, whether they
arrive as ids or as text. The translator makes equal items of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon_core.jsons import Object, loads
from antiphon_translator.engines import registry
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.generation import EngineChunk, GenerationRequest, TextChunk, TokenChunk
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing import families
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support import pushed
from tests.support.chunks import only
from tests.support.prompts import prompt_at
from tests.support.served_models import turn
from tests.support.small_vocabulary import byte_tokenizer, ids_of
from tests.support.triton import RunningTriton, ScriptedModel, triton_server
from tests.support.turns import engine_on, named, run, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMAS: dict[str, Object] = {"get_weather": {"type": "object", "properties": {"city": {"type": "string"}}}}
END = "<|end|>"


@dataclass(frozen=True)
class FamilyOutput:
    """The output of one family's model, in parts. The outputs of all families mean the same."""

    family: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def control_tokens(self) -> tuple[str, ...]:
        return (*(part for part in self.parts if part[0] in "<[" and len(part) < 20), END)


FAMILY_OUTPUTS = (
    FamilyOutput(
        "hermes",
        (
            *("<think>", "Rome für mich?", "</think>", "One moment."),
            *("<tool_call>", '{"name": "get_weather", "arguments": {"city": "Rome"}}', "</tool_call>"),
        ),
    ),
    FamilyOutput(
        "mistral",
        (
            *("[THINK]", "Rome für mich?", "[/THINK]", "One moment."),
            *("[TOOL_CALLS]", "get_weather", "[ARGS]", '{"city": "Rome"}'),
        ),
    ),
    FamilyOutput(
        "glm",
        (
            *("<think>", "Rome für mich?", "</think>", "One moment."),
            *("<tool_call>", "get_weather\n", "<arg_key>", "city", "</arg_key>", "\n"),
            *("<arg_value>", "Rome", "</arg_value>", "\n", "</tool_call>"),
        ),
    ),
)
BY_FAMILY = {family_output.family: family_output for family_output in FAMILY_OUTPUTS}


def scripted(family_output: FamilyOutput) -> list[ScriptedModel]:
    tokenizer = byte_tokenizer(*family_output.control_tokens())
    by_ids = ScriptedModel(f"{family_output.family}_ids", delay_ms=0.5, says=ids_of(tokenizer, *family_output.parts))
    return [
        by_ids,
        ScriptedModel(f"{family_output.family}_text", delay_ms=0.5, says=family_output.text, signature="vllm_model"),
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    async with triton_server(
        *(model for family_output in FAMILY_OUTPUTS for model in scripted(family_output))
    ) as running:
        yield running


async def chunks_of(server: RunningTriton, name: str) -> list[EngineChunk]:
    profile = ModelProfile(name="m", directory=Path(), endpoint=server.grpc_address, triton_model=name)
    engine = registry.create(profile, TritonChannels())
    await engine.controls()
    request = GenerationRequest(request_id="r", max_tokens=1000, prompt=prompt_at(engine.level, (1,), "Hi"))
    async with aclosing(pushed.chunks(engine, request)) as batches:
        chunks = [chunk async for batch in batches for chunk in batch]
    await engine.close()
    return chunks


def meaning(segments: list[Segment]) -> list[object]:
    """Joins the segments of each kind and decodes arguments, so that outputs can be compared."""
    told: list[object] = ["".join(one.text for one in segments if isinstance(one, kind)) for kind in (Reasoning, Text)]
    told += [(one.name, one.model_id) for one in segments if isinstance(one, CallBegin)]
    told.append(loads("".join(one.text for one in segments if isinstance(one, Arguments))))
    told += [one for one in segments if isinstance(one, CallEnd)]
    return told


MEANING = ["Rome für mich?", "One moment.", ("get_weather", None), {"city": "Rome"}, CallEnd(is_complete=True)]


@pytest.mark.parametrize("family", sorted(BY_FAMILY))
async def test_output_as_ids_is_parsed_into_reasoning_text_and_calls(server: RunningTriton, family: str) -> None:
    tokenizer = byte_tokenizer(*BY_FAMILY[family].control_tokens())
    parser = TokenParser(TokenSyntax(families.load(family), tokenizer), schemas=SCHEMAS)
    segments: list[Segment] = []
    for chunk in only(TokenChunk, await chunks_of(server, f"{family}_ids")):
        segments += parser.feed(chunk.ids)
    assert meaning([*segments, *parser.finish(cut_off=False)]) == MEANING


@pytest.mark.parametrize("family", sorted(BY_FAMILY))
async def test_output_as_text_is_parsed_into_reasoning_text_and_calls(server: RunningTriton, family: str) -> None:
    parser = OutputParser(families.load(family), schemas=SCHEMAS)
    segments: list[Segment] = []
    for chunk in only(TextChunk, await chunks_of(server, f"{family}_text")):
        segments += parser.feed(chunk.text)
    assert meaning([*segments, *parser.finish()]) == MEANING


TEMPLATE = JinjaTemplate("{% for message in messages %}{{ message.content }}{% endfor %}", special_tokens={})
WEATHER = {"type": "function", "name": "get_weather", "parameters": SCHEMAS["get_weather"]}


@pytest.mark.parametrize("level", ["ids", "text"])
@pytest.mark.parametrize("family", sorted(BY_FAMILY))
async def test_output_of_every_family_becomes_equal_items(server: RunningTriton, family: str, level: str) -> None:
    family_output = BY_FAMILY[family]
    tokenizer = byte_tokenizer(*family_output.control_tokens())
    served = {
        "prompt": PromptEncoder(TEMPLATE, tokenizer),
        "tokenizer": tokenizer,
        "syntax": TokenSyntax(families.load(family), tokenizer),
        "stop_ids": tuple(ids_of(tokenizer, END)),
    }
    async with serving(engine_on(server, name=f"{family}_{level}"), **served) as service:
        ran = await run(service, named(turn("Rome?", tools=[WEATHER])))
    reasoning, message, call = ran.record["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Rome für mich?"}]
    assert message["content"][0]["text"] == "One moment."
    assert (call["type"], call["name"], loads(call["arguments"])) == ("function_call", "get_weather", {"city": "Rome"})
    if level == "ids":
        assert ran.usage == (len(tokenizer.encode("Rome?")), len(ids_of(tokenizer, *family_output.parts)))
