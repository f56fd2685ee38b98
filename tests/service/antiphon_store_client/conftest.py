from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted_store import ScriptedStore, scripted_store


@pytest.fixture
def store() -> Iterator[ScriptedStore]:
    with scripted_store() as running:
        yield running
