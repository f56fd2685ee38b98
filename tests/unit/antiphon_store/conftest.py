"""What the store's unit tests share."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
