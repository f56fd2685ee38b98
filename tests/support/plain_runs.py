"""Records what runs of plain tokens read past the parser."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon_translator.output.plain_run import PlainRun
from antiphon_translator.parsing.segments import Segment


def taken_segments(monkeypatch: pytest.MonkeyPatch) -> list[Segment]:
    """Returns a list to which every segment of a plain run is added, until the end of the test."""
    segments: list[Segment] = []
    read = PlainRun.read

    def recorded(run: PlainRun, token_ids: Sequence[int]) -> list[Segment] | None:
        found = read(run, token_ids)
        segments.extend(found or ())
        return found

    monkeypatch.setattr(PlainRun, "read", recorded)
    return segments
