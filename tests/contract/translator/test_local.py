from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.clock import SystemClock
from antiphon_translator.engines.scripted import ScriptedEngine
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.contract.translator.suite import Served, TranslatorSuite
from tests.support.served_models import model


class TestLocal(TranslatorSuite):
    @pytest.fixture
    async def served(self) -> AsyncIterator[Served]:
        service = TranslatorService(TranslatorSettings(), clock=SystemClock())
        engine = ScriptedEngine([])
        service.add(model(), engine)
        yield Served(service, engine)
        await service.close()
