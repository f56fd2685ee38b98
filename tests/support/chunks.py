"""The chunks of one level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from antiphon_translator.generation import ChatChunk, EngineChunk, TextChunk, TokenChunk, Usage

Chunk = TypeVar("Chunk", TokenChunk, TextChunk, ChatChunk)


def only(kind: type[Chunk], chunks: Iterable[EngineChunk | None]) -> list[Chunk]:
    """These chunks, all of which are of this kind."""
    found = list(chunks)
    assert all(isinstance(chunk, kind) for chunk in found), found
    return [chunk for chunk in found if isinstance(chunk, kind)]


def usage_in(chunk: EngineChunk) -> Usage | None:
    """The token counts that a chunk brings."""
    return None if isinstance(chunk, TokenChunk) else chunk.usage
