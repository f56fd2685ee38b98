from __future__ import annotations

import pytest

from antiphon_translator.engines import triton_hints, triton_text, triton_vllm
from antiphon_translator.engines.triton_model import read_config
from antiphon_translator.engines.triton_signature import Describe
from tests.support.fake_triton import ENSEMBLE, LLM_API, VLLM, FakeTriton, Kind
from tests.unit.repo.test_documents import ROOT


@pytest.mark.parametrize(
    ("kind", "described", "whose"),
    [
        (LLM_API, triton_text.describe, "TensorRT-LLM's LLM API"),
        (VLLM, triton_vllm.describe, "Triton's vLLM backend"),
        (ENSEMBLE, triton_text.describe, None),
    ],
)
def test_stock_text_model_is_noted_once_with_the_page(
    caplog: pytest.LogCaptureFixture, kind: Kind, described: Describe, whose: str | None
) -> None:
    triton_hints.note_text_model.cache_clear()
    for _ in range(2):
        described(read_config(FakeTriton(kind).config()))
    found = [record.getMessage() for record in caplog.records if record.name == triton_hints.__name__]
    assert len(found) == (whose is not None)
    assert all(f"is the text-level model of {whose}: " in text and triton_hints.PAGE in text for text in found)
    assert (ROOT / triton_hints.PAGE).exists()
