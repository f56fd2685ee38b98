from __future__ import annotations

import asyncio

from antiphon_edge import phases


def test_phases_are_shown_in_milliseconds() -> None:
    phases.begin()
    phases.note(phases.START, 0.0012)
    phases.note(phases.COMMIT, 0.5)
    assert phases.header(1.25) == "start;dur=1.2, commit;dur=500.0, total;dur=1250.0"


async def test_a_phase_of_a_task_belongs_to_the_request_that_started_it() -> None:
    phases.begin()

    async def work() -> None:
        phases.note(phases.START, 0.002)

    await asyncio.create_task(work())
    assert phases.header(0.003) == "start;dur=2.0, total;dur=3.0"


def test_phases_are_cleared_for_the_next_request() -> None:
    phases.begin()
    phases.note(phases.START, 0.002)
    phases.begin()
    assert phases.header(0.003) == "total;dur=3.0"
