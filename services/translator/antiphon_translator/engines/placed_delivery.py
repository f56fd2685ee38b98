"""Puts the placement of a prompt on the first chunk of its generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import EngineChunk


class PlacedDelivery:
    """Wraps `deliver` for one generation. `place` makes the placement of the one that the chunk has already, which is
    empty if it has none."""

    def __init__(self, deliver: Deliver, place: Callable[[str], str]) -> None:
        self._deliver = deliver
        self._place = place
        self._has_begun = False

    def __call__(self, chunks: Sequence[EngineChunk]) -> bool:
        if self._has_begun:
            return self._deliver(chunks)
        self._has_begun = True
        first = chunks[0]
        return self._deliver([replace(first, placement=self._place(first.placement or "")), *chunks[1:]])
