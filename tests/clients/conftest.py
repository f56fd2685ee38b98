"""What the tests of this folder share: a whole system whose model is a script, for clients that do not block."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.scripted_system import ScriptedSystem, scripted_system


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running
