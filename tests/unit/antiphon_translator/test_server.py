from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import Unimplemented
from antiphon_core.rpc.methods import TRANSLATOR
from antiphon_core.rpc.server import Call
from antiphon_protos.antiphon.translator import v1
from antiphon_translator.server import handlers
from tests.support.translators import ScriptedTranslator

CALL = Call(tenant="default", request_id="", time_remaining_s=None)


def test_every_rpc_is_served() -> None:
    assert set(handlers(ScriptedTranslator())) == set(TRANSLATOR.methods)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (v1.GenerateRequest(turn=v1.Turn(), resume=v1.Resume(next_sequence=1)), "resume"),
        (v1.GenerateRequest(turn=v1.Turn(), checkpoints=True), "checkpoints"),
    ],
)
async def test_what_is_not_implemented_is_refused_by_name(request_: Any, field: str) -> None:
    answers: Any = handlers(ScriptedTranslator())["Generate"](request_, CALL)
    with pytest.raises(Unimplemented, match=rf"GenerateRequest\.{field}"):
        await anext(answers)
