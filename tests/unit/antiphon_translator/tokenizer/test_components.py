from __future__ import annotations

from typing import Any

import pytest
from tokenizers import normalizers, pre_tokenizers, processors

from antiphon_translator.tokenizer.components import steps

INNER = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", "\u2581")])


@pytest.mark.parametrize(
    ("component", "types"),
    [
        (None, []),
        (normalizers.NFC(), ["NFC"]),
        (normalizers.Sequence([normalizers.Lowercase(), INNER]), ["Lowercase", "NFC", "Replace"]),
        (pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()]), ["Digits", "ByteLevel"]),
        (processors.Sequence([processors.ByteLevel()]), ["ByteLevel"]),
    ],
)
def test_nested_sequences_are_flattened_in_order(component: Any, types: list[str]) -> None:
    assert [step["type"] for step in steps(component)] == types


def test_a_step_has_its_settings() -> None:
    (step,) = steps(pre_tokenizers.Split(" ", "removed"))
    assert step["behavior"] == "Removed"
