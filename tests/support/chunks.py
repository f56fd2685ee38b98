"""The chunks of one level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from antiphon_translator.generation import ChatChunk, EngineChunk, ReportedUsage, TextChunk, TokenChunk

Chunk = TypeVar("Chunk", TokenChunk, TextChunk, ChatChunk)


def only(kind: type[Chunk], chunks: Iterable[EngineChunk | None]) -> list[Chunk]:
    """Returns the chunks, and requires that all are of this kind."""
    found = list(chunks)
    assert all(isinstance(chunk, kind) for chunk in found), found
    return [chunk for chunk in found if isinstance(chunk, kind)]


def usage_in(chunk: EngineChunk) -> ReportedUsage | None:
    """Returns the token counts in a chunk."""
    return None if isinstance(chunk, TokenChunk) else chunk.usage
