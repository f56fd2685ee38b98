from __future__ import annotations

from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_translator.server import handlers
from tests.support.translators import ScriptedTranslator


def test_every_rpc_is_served() -> None:
    assert set(handlers(ScriptedTranslator())) == set(TRANSLATOR.methods)
