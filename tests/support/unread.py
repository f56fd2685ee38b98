"""Remembers what a reader of an engine's stream reported as unread."""

from __future__ import annotations


class NotedParts:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def note(self, part: str, given: object) -> None:
        self.parts.append(part)
