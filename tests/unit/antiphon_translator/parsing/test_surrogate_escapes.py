from __future__ import annotations

import pytest

from antiphon_translator.parsing import surrogate_escapes


@pytest.mark.parametrize(
    ("source", "replaced"),
    [
        (r"a\ud83d\ude00b", "a\U0001f600b"),
        (r"\uD83D\uDE00", "\U0001f600"),
        (r"a\ud83db", "a\ufffdb"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\U0000d83d", "\ufffd"),
        (r"\\ud83d", r"\\ud83d"),
        (r"\\\ud83d", "\\\\\ufffd"),
        (r"\u00e4\n\ud8", r"\u00e4\n\ud8"),
        ("\ud83d\\", "\ud83d\\"),
    ],
)
def test_surrogate_escapes_become_characters_and_other_escapes_are_kept(source: str, replaced: str) -> None:
    assert surrogate_escapes.replace_escapes(source) == replaced


@pytest.mark.parametrize(
    ("escape", "is_high", "is_low"),
    [
        (r"\ud83d", True, False),
        (r"\uDE00", False, True),
        (r"\u0041", False, False),
        (r"\u", False, False),
        (r"\ud8", False, False),
    ],
)
def test_high_and_low_surrogate_escapes_are_distinguished(escape: str, is_high: bool, is_low: bool) -> None:
    assert (surrogate_escapes.is_high(escape), surrogate_escapes.is_low(escape)) == (is_high, is_low)
