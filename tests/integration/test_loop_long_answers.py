"""No callback blocks the event loop for long at the end of a long answer, whatever its engine reports and however it is
delivered.

The end of an answer counts its tokens, checks it against its schema, repeats it in four events and writes its record.
The bound is on CPU time of the loop's thread in a single callback, as in test_loop.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from antiphon_core.jsons import Object, dumps
from antiphon_core.limits import ENGINE_SLICE_CHARS_MAX, OUTPUT_BYTES_MAX, RECORD_VALUES_MAX
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine, Step, Wait
from antiphon_translator.generation import (
    ChatChunk,
    EngineChunk,
    FinishReason,
    Level,
    ReportedUsage,
    TextChunk,
    TokenChunk,
)
from antiphon_translator.parsing.segments import (
    Arguments,
    CallBegin,
    CallEnd,
    Candidate,
    Reasoning,
    Refusal,
    ScoredText,
    ScoredToken,
    Segment,
    Text,
)
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.loop_watch import require_short_callbacks
from tests.support.served_models import END_ID, model, tokenizer
from tests.support.volume import volume

CALLBACK_CPU_S_MAX = 0.1
ANSWER_BYTES = volume(2 * 2**20, OUTPUT_BYTES_MAX // 2)
USAGE = ReportedUsage(1, ANSWER_BYTES // 4)
SENTENCE = "The quick brown fox jumps over 13 lazy dogs, and says so. "
CONTROLS = ALL_CONTROLS | {"guide", "stop", "logprobs", "top_logprobs"}
SCORED_TOKENS = 32  # with log probabilities, in one message
TOKEN_VALUES = 50  # in the log probabilities of a token with five alternatives


@dataclass(frozen=True)
class Answer:
    """The chunks of an engine, and the members of the request that it answers."""

    level: Level
    chunks: Callable[[], Iterator[EngineChunk]]
    members: Object = field(default_factory=dict)
    is_stored: bool = True
    """False: the store rejects it."""


def text(size_bytes: int = ANSWER_BYTES) -> str:
    return (SENTENCE * (size_bytes // len(SENTENCE) + 1))[:size_bytes]


def pieces(whole: str) -> Iterator[str]:
    return (whole[at : at + ENGINE_SLICE_CHARS_MAX] for at in range(0, len(whole), ENGINE_SLICE_CHARS_MAX))


def as_ids() -> Iterator[EngineChunk]:
    ids = tokenizer().encode(text(ENGINE_SLICE_CHARS_MAX // 4))
    for _ in range(ANSWER_BYTES // ENGINE_SLICE_CHARS_MAX):
        yield TokenChunk(ids)
    yield TokenChunk([END_ID])


def as_text(usage: ReportedUsage | None = None) -> Iterator[EngineChunk]:
    yield from map(TextChunk, pieces(text()))
    yield TextChunk(finish=FinishReason.STOP, usage=usage)


def as_chat(segments: Sequence[Segment], usage: ReportedUsage | None = None) -> Iterator[EngineChunk]:
    yield from (ChatChunk([segment]) for segment in segments)
    yield ChatChunk([], finish=FinishReason.STOP, usage=usage)


def chat(*segments: Segment, reports: bool = True, is_stored: bool = True, **members: Any) -> Answer:
    return Answer(Level.CHAT, lambda: as_chat(segments, USAGE if reports else None), members, is_stored)


def scored(tokens: int) -> Iterator[Segment]:
    candidates = tuple(Candidate(b"the ", -1.0) for _ in range(5))
    token = ScoredToken(b"the ", -0.5, candidates)
    return (ScoredText("the " * SCORED_TOKENS, (token,) * SCORED_TOKENS) for _ in range(tokens // SCORED_TOKENS))


def call(arguments: str) -> list[Segment]:
    return [CallBegin("f"), *map(Arguments, pieces(arguments)), CallEnd(True)]


ROWS: Object = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
}
JSON = dumps({"rows": [{"n": 1}] * (ANSWER_BYTES // 8)}).decode()
TOOL: Object = {"type": "function", "name": "f", "parameters": ROWS}
LOGPROBS: Object = {"include": ["message.output_text.logprobs"], "top_logprobs": 5}

ANSWERS: Mapping[str, Answer] = {
    "token ids": Answer(Level.TOKENS, as_ids),
    "text without usage": Answer(Level.TEXT, as_text),
    "text and stop sequences": Answer(Level.TEXT, lambda: as_text(USAGE), {"stop": ["No dog", "never"]}),
    "chat without usage": chat(*map(Text, pieces(text())), reports=False),
    "chat with usage": chat(*map(Text, pieces(text()))),
    "reasoning, and then text": chat(*map(Reasoning, pieces(text(ANSWER_BYTES // 2))), *map(Text, pieces(text(9_000)))),
    "a refusal": chat(*map(Refusal, pieces(text()))),
    "arguments of a call": chat(*call(JSON), tools=[TOOL]),
    "JSON by a schema": chat(
        *map(Text, pieces(JSON)), text={"format": {"type": "json_schema", "name": "s", "schema": ROWS}}
    ),
    "log probabilities": chat(*scored(RECORD_VALUES_MAX // TOKEN_VALUES // 2), **LOGPROBS),
    "log probabilities, too many to be stored": chat(
        *scored(RECORD_VALUES_MAX // TOKEN_VALUES * 5 // 4), is_stored=False, **LOGPROBS
    ),
}

BY_DAY = ("chat without usage", "log probabilities", "log probabilities, too many to be stored")
"""The tokens of text without usage are counted by the same class. The others take 8 to 27 ms by day, whether their end
is in the loop or not."""
PLAYED = volume({name: ANSWERS[name] for name in BY_DAY}, dict(ANSWERS))


class LongAnswers(ScriptedEngine):
    """Plays one answer in each generation, one chunk in each iteration of the event loop."""

    def __init__(self, answer: Answer) -> None:
        steps: list[Step] = []
        for chunk in answer.chunks():
            steps += (Emit(chunk), Wait(0))
        super().__init__(steps, controls=CONTROLS)
        self.level = answer.level


@pytest.fixture
async def http(answer: Answer) -> AsyncIterator[Http]:
    asked = model(context_length=10 * OUTPUT_BYTES_MAX)
    async with running((asked, LongAnswers(answer)), workers=1) as system:
        yield system.http


async def streamed(http: Http, path: str = "/v1/responses", **members: Any) -> bytes:
    return (await http.post(path, members | {"stream": True})).body


async def over_a_websocket(http: Http, **members: Any) -> str:
    async with http.session.ws_connect(http.url + "/v1/responses", max_msg_size=0) as socket:
        await socket.send_json(members | {"type": "response.create"})
        while True:
            event = str(await socket.receive_str())[:100].split('"')[3]  # the test parses nothing large on the loop
            if event in ("response.completed", "response.failed"):
                return event


@pytest.mark.parametrize("answer", PLAYED.values(), ids=PLAYED)
async def test_the_end_of_a_long_answer_does_not_block_the_event_loop(http: Http, answer: Answer) -> None:
    asked: Object = {"model": "m", "input": "hi"} | answer.members
    end = "response.completed" if answer.is_stored else "response.failed"

    async def work() -> None:
        assert f"event: {end}\n".encode() in await streamed(http, **asked)
        assert f"event: {end}\n".encode() in await streamed(http, **asked, background=True)
        assert await over_a_websocket(http, **asked) == end
        assert (await http.create(**asked)).status == (200 if answer.is_stored else 413)
        include = [*asked.get("include", ()), "reasoning.encrypted_content"]
        assert b"event: response.completed\n" in await streamed(http, **(asked | {"store": False, "include": include}))
        said = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert (await streamed(http, "/v1/chat/completions", **said)).endswith(b"data: [DONE]\n\n")

    await require_short_callbacks(work, max_s=CALLBACK_CPU_S_MAX)
