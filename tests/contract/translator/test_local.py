from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_translator.engines.scripted import ScriptedEngine
from tests.contract.translator.suite import Served, TranslatorSuite
from tests.support.in_process import translator_of
from tests.support.served_models import model


class TestLocal(TranslatorSuite):
    @pytest.fixture
    async def served(self) -> AsyncIterator[Served]:
        engine = ScriptedEngine([])
        service = translator_of((model(), engine))
        yield Served(service, engine)
        await service.close()
