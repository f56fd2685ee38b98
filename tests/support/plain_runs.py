"""Records what runs of plain tokens read past the parser."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon_translator.output.plain_run import PlainRun
from antiphon_translator.parsing.segments import Reasoning, Text


def taken_segments(monkeypatch: pytest.MonkeyPatch) -> list[Text | Reasoning]:
    """Returns a list to which every segment of a plain run is added, until the end of the test."""
    segments: list[Text | Reasoning] = []
    read = PlainRun.read

    def recorded(run: PlainRun, token_ids: Sequence[int]) -> Text | Reasoning | None:
        segment = read(run, token_ids)
        if segment is not None:
            segments.append(segment)
        return segment

    monkeypatch.setattr(PlainRun, "read", recorded)
    return segments
