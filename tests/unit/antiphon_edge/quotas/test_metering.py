from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_edge.quotas.metering import Meter


@pytest.mark.parametrize(
    ("response", "tokens"), [(b'{"usage":{"total_tokens":7}}', 7), (b'{"usage":null}', 0), (b"{}", 0)]
)
def test_ended_response_is_charged_for_its_usage(response: bytes, tokens: int) -> None:
    charged: list[tuple[str, int]] = []
    meter = Meter(lambda tenant, count: charged.append((tenant, count)))
    meter.count_response("acme", response)
    meter.broke_off("globex", 3)
    assert charged == [("acme", tokens), ("globex", 3)]


def test_usage_of_an_error_is_charged() -> None:
    charged: list[tuple[str, int]] = []
    meter = Meter(lambda tenant, count: charged.append((tenant, count)))
    late = EngineFault("no")
    late.usage = {"total_tokens": 7}
    for error in (EngineFault("no"), KeyError("no"), late):
        meter.count_failure("acme", error)
    assert charged == [("acme", 7)]


def test_meter_without_a_callback_does_not_parse_the_response() -> None:
    meter = Meter()
    meter.count_response("acme", b"no JSON")
    meter.broke_off("acme", 3)
