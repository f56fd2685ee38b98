"""Fixtures of this folder: long time limits for busy machines."""

from __future__ import annotations

import pytest

from tests.support.patient_edges import make_edges_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a store that is slow is not gone."""
    make_edges_patient(monkeypatch)
