from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_edge.turns.metering import Meter


@pytest.mark.parametrize(
    ("response", "tokens"), [(b'{"usage":{"total_tokens":7}}', 7), (b'{"usage":null}', 0), (b"{}", 0)]
)
def test_what_a_response_took_is_in_its_usage(response: bytes, tokens: int) -> None:
    charged: list[tuple[str, int]] = []
    meter = Meter(lambda tenant, count: charged.append((tenant, count)))
    meter.ended("acme", response)
    meter.broke_off("globex", 3)
    assert charged == [("acme", tokens), ("globex", 3)]


def test_what_was_generated_before_an_error_is_charged() -> None:
    charged: list[tuple[str, int]] = []
    meter = Meter(lambda tenant, count: charged.append((tenant, count)))
    late = EngineFault("no")
    late.usage = {"total_tokens": 7}
    for error in (EngineFault("no"), KeyError("no"), late):
        meter.failed("acme", error)
    assert charged == [("acme", 7)]


def test_where_nobody_counts_nothing_is_read() -> None:
    meter = Meter()
    meter.ended("acme", b"no JSON")
    meter.broke_off("acme", 3)
