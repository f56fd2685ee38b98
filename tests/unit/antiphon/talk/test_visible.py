from __future__ import annotations

from antiphon.talk.visible import visible


def test_control_characters_are_escaped_and_text_stays() -> None:
    assert visible("\x1b]52;c;AAAA\x07 \x9b31m\x7f\r") == r"\x1b]52;c;AAAA\x07 \x9b31m\x7f\r"
    assert visible("a\r\nb\r") == "a\nb\\r"
    assert visible("a\n\t日本 😀\u200f") == "a\n\t日本 😀\u200f"
