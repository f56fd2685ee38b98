from __future__ import annotations

from pathlib import Path

from antiphon_core.telemetry import reference_page
from antiphon_core.telemetry.metrics import declarations

ROOT = Path(__file__).parents[4]


def test_the_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    assert page == reference_page.as_markdown(), "run `make docs`"


def test_the_reference_page_names_every_instrument_with_its_kind() -> None:
    lines = reference_page.as_markdown().splitlines()
    kinds = {
        declared.name: next(line.split(" | ")[1] for line in lines if f"`{declared.name}` | " in line)
        for declared in declarations()
    }
    assert set(kinds.values()) == {"counter", "gauge", "histogram"}
