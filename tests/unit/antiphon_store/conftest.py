"""Fixtures of the store's unit tests."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
