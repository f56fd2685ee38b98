from __future__ import annotations

from antiphon_core.limits import LEASE_TTL_MS_DEFAULT
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING


def test_a_lease_survives_two_renewals_that_fail() -> None:
    pace = DEFAULT_TIMING.session_pace
    assert pace.every_s + 2 * pace.retry_s < LEASE_TTL_MS_DEFAULT / 1000
    pace = DEFAULT_TIMING.job_pace
    assert pace.every_s + 2 * pace.retry_s < DEFAULT_TIMING.job_lease_ms / 1000


def test_a_lease_is_renewed_sooner_after_a_failure() -> None:
    for pace in (DEFAULT_TIMING.session_pace, DEFAULT_TIMING.job_pace, DEFAULT_TIMING.key_pace):
        assert pace.retry_s < pace.every_s


def test_cancel_timeout_is_longer_than_two_heartbeats() -> None:
    assert DEFAULT_TIMING.cancel_timeout_s > 2 * DEFAULT_TIMING.cancel_pace.every_s
