"""Fixtures of the store's unit tests."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from tests.support.rows import SpiedRows


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def rows(clock: ManualClock) -> SpiedRows:
    """Rows in memory that record their programs."""
    rows = SpiedRows(clock)
    await rows.open()
    return rows
