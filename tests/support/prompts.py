"""Reads and makes the prompts in requests to engines."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_translator.generation import (
    ChatPrompt,
    GenerationRequest,
    Level,
    Prompt,
    TextPrompt,
    TokenPrompt,
)


def ids_in(request: GenerationRequest) -> Sequence[int]:
    """Returns the prompt of a request to a TOKENS engine."""
    return request.prompt_as(TokenPrompt).ids


def text_in(request: GenerationRequest) -> str:
    """Returns the prompt of a request to a TEXT engine."""
    return request.prompt_as(TextPrompt).text


def images_in(request: GenerationRequest) -> tuple[bytes, ...]:
    """Returns the images of a TEXT engine's prompt. TOKENS engines get none."""
    return request.prompt.images if isinstance(request.prompt, TextPrompt) else ()


def prompt_at(level: Level, ids: Sequence[int], text: str) -> Prompt:
    """Makes a prompt for an engine of this level, from its ids and its text."""
    match level:
        case Level.TOKENS:
            return TokenPrompt(ids)
        case Level.TEXT:
            return TextPrompt(text, tokens=len(ids))
        case Level.CHAT:
            return ChatPrompt([{"role": "user", "content": text}])
