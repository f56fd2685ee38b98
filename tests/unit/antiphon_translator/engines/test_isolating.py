"""The engine of a model that isolates tenants is usable only if it takes a salt."""

from __future__ import annotations

import pytest

from antiphon_core.errors import EngineMisconfigured
from antiphon_core.telemetry import remedies
from antiphon_core.telemetry.log_fields import REMEDY
from antiphon_translator.engines.isolating import IsolatingEngine
from antiphon_translator.engines.scripted import ALL_CONTROLS, ScriptedEngine
from antiphon_translator.generation import CACHE_SALT


async def test_engine_that_takes_no_salt_is_never_ready(caplog: pytest.LogCaptureFixture) -> None:
    engine = IsolatingEngine(ScriptedEngine([]), "m")
    for ask in (engine.ready, engine.controls):
        with pytest.raises(EngineMisconfigured, match="'m' isolates its tenants, and its engine takes no cache salt"):
            await ask()
    assert [vars(line)[REMEDY] for line in caplog.records] == [remedies.ISOLATE_TENANTS[REMEDY]] * 2
    salted = IsolatingEngine(ScriptedEngine([], controls=ALL_CONTROLS | {CACHE_SALT}), "m")
    await salted.ready()
    assert CACHE_SALT in await salted.controls()
