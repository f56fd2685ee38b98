"""A store over rows that record their programs."""

from __future__ import annotations

import pytest

from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from tests.support.rows import SpiedRows


@pytest.fixture
def store(rows: SpiedRows) -> StoreService:
    return StoreService(rows, StoreSettings(default_ttl_s=None, event_log_ttl_s=1, job_weights=("heavy=3",)))
