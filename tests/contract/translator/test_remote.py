from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_core.rpc.server import RpcServer
from antiphon_translator.client import TranslatorClient
from antiphon_translator.engines.scripted import ScriptedEngine
from antiphon_translator.server import handlers
from tests.contract.translator.suite import Served, TranslatorSuite
from tests.support.in_process import translator_of
from tests.support.served_models import model


class TestRemote(TranslatorSuite):
    @pytest.fixture
    async def served(self) -> AsyncIterator[Served]:
        engine = ScriptedEngine([])
        service = translator_of((model(), engine))
        server = RpcServer()
        server.add(TRANSLATOR, handlers(service), ready=service.ready)
        port = await server.start("127.0.0.1", 0)
        client = TranslatorClient(f"127.0.0.1:{port}")
        yield Served(client, engine)
        await client.close()
        await server.drain(0)
        await service.close()
