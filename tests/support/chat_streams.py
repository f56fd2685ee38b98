"""Streams of chat completions servers, read by the engine from recorded bytes, or chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

from antiphon_core.jsons import Object
from antiphon_translator.engines.chat_stream import ChunkReader
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.generation import ChatChunk, ChatPrompt, EngineChunk, GenerationRequest
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from tests.support import pushed
from tests.support.chunks import only
from tests.support.fake_chat import fake_chat
from tests.support.unread import NotedParts

REQUEST = GenerationRequest(request_id="r", max_tokens=40, prompt=ChatPrompt([{"role": "user", "content": "Hi"}]))


async def replayed(stream: bytes, piece_bytes: int, request: GenerationRequest = REQUEST) -> list[EngineChunk]:
    """The chunks that the engine reads from a stream that arrives in pieces of this size."""
    chunks: list[EngineChunk] = []
    async with fake_chat() as fake:
        fake.script = [stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes)]
        engine = OpenAIChatEngine(ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint))
        try:
            async with aclosing(pushed.chunks(engine, request)) as batches:
                async for batch in batches:
                    chunks += batch
        finally:
            await engine.close()
    return chunks


def read(*chunks: Object) -> tuple[list[Segment], EngineChunk]:
    return read_by(ChunkReader(NotedParts(), names=("f", "g", "get", "get_weather")), *chunks)


def read_by(reader: ChunkReader, *chunks: Object) -> tuple[list[Segment], ChatChunk]:
    segments = [segment for chunk in chunks if (one := reader.read(chunk)) for segment in one.segments]
    last = reader.finish()
    return [*segments, *last.segments], last


def segments_of(chunks: Iterable[EngineChunk]) -> list[Segment]:
    return [segment for chunk in only(ChatChunk, chunks) for segment in chunk.segments]


def items_of(segments: list[Segment]) -> list[tuple[str, ...]]:
    """The items that the segments are: texts, reasoning, and calls with their arguments and whether they are whole."""
    items: list[list[str]] = []
    for segment in segments:
        match segment:
            case Text(text) | Reasoning(text):
                kind = type(segment).__name__.lower()
                if items and items[-1][0] == kind:
                    items[-1][1] += text
                else:
                    items.append([kind, text])
            case CallBegin(name):
                items.append(["open", name, ""])
            case Arguments(text):
                items[-1][2] += text
            case CallEnd(is_complete):
                items[-1][0] = "call" if is_complete else "broken call"
    return [tuple(item) for item in items]
