from __future__ import annotations

import pytest

from tests.support.patient_edges import make_edges_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of a timeout of the edge set it themselves."""
    make_edges_patient(monkeypatch)
