from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_translator.engines.text_growth import GrowingText, Growth

WORDS = ["The", " cap", "ital", " is", " für", "\U0001f600", "!"]
SO_FAR = ["".join(WORDS[: number + 1]) for number in range(len(WORDS))]


def told(growth: Growth, messages: list[str] | list[bytes]) -> list[str]:
    text = GrowingText(growth)
    pieces = [text.feed(message if isinstance(message, bytes) else message.encode()) for message in messages]
    return [*pieces, text.finish()]


def test_delta_messages_are_passed_on_as_they_are() -> None:
    assert told(Growth.DELTA, WORDS) == [*WORDS, ""]


def test_cumulative_messages_yield_only_their_new_text() -> None:
    assert told(Growth.CUMULATIVE, SO_FAR) == [*WORDS, ""]
    assert told(Growth.CUMULATIVE, ["a", "a", "ab"]) == ["a", "", "b", ""]


def finished(growth: Growth, messages: list[bytes], *, cut_off: bool) -> str:
    text = GrowingText(growth)
    return "".join([*map(text.feed, messages), text.finish(cut_off=cut_off)])


@pytest.mark.parametrize(
    ("growth", "messages"),
    [
        (Growth.DELTA, [b"a", b"b", b"\xf0\x9f"]),
        (Growth.CUMULATIVE, [b"a", b"ab", b"ab\xef\xbf\xbd"]),
        (Growth.UNKNOWN, [b"a", b"ab", b"ab\xef\xbf\xbd"]),
    ],
)
def test_character_cut_off_by_the_length_is_left_out(growth: Growth, messages: list[bytes]) -> None:
    assert finished(growth, messages, cut_off=True) == "ab"
    assert finished(growth, messages, cut_off=False) == "ab\ufffd"


@pytest.mark.parametrize("messages", [WORDS, SO_FAR], ids=["delta", "cumulative"])
@pytest.mark.parametrize("count", range(1, len(WORDS) + 1))
def test_unknown_growth_is_detected_from_the_messages(messages: list[str], count: int) -> None:
    assert "".join(told(Growth.UNKNOWN, messages[:count])) == SO_FAR[count - 1]


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        (["ha", "ha", "ha", "!"], "hahaha!"),
        (["ha", "ha"], "haha"),
        (["1", "10", "2"], "1102"),
        (["", "a", "", "ab", "abc"], "abc"),
        (["a", "aa", "aaa", "aaab"], "aaab"),
        (["a", "ab", "ab\ufffd", "abü"], "abü"),
        (["\ufffd", "\ufffd", "\ufffd"], "\ufffd\ufffd\ufffd"),
        ([], ""),
    ],
)
def test_ambiguous_messages_yield_their_whole_text(messages: list[str], text: str) -> None:
    assert "".join(told(Growth.UNKNOWN, messages)) == text


def test_first_message_is_passed_on_at_once_if_its_characters_are_complete() -> None:
    assert told(Growth.UNKNOWN, ["The", " cap"])[:2] == ["The", " cap"]
    assert told(Growth.UNKNOWN, ["The", "The cap", "The cap is"]) == ["The", "", " cap is", ""]
    assert told(Growth.UNKNOWN, ["a\ufffd", "aü", "aü!"]) == ["", "", "aü!", ""]
    assert told(Growth.UNKNOWN, [b"a\xc3", b"\xbc", b"!"]) == ["", "aü", "!", ""]


def test_split_character_is_passed_on_when_it_is_complete() -> None:
    data = "aü\U0001f600".encode()
    singles = [data[at : at + 1] for at in range(len(data))]
    assert "".join(told(Growth.DELTA, singles)) == "aü\U0001f600"
    assert told(Growth.CUMULATIVE, ["a", "a\ufffd", "aü", "aü\ufffd\ufffd", "aü\U0001f600"]) == [
        *("a", "", "ü", "", "\U0001f600"),
        "",
    ]


def test_incomplete_character_is_passed_on_at_the_end() -> None:
    assert told(Growth.DELTA, [b"a\xc3"]) == ["a", "\ufffd"]
    assert told(Growth.CUMULATIVE, ["a", "a\ufffd"]) == ["a", "", "\ufffd"]


def test_deltas_of_a_server_configured_as_cumulative_are_read() -> None:
    assert "".join(told(Growth.CUMULATIVE, WORDS)) == SO_FAR[-1]


def test_cumulative_message_that_drops_text_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="took back"):
        told(Growth.CUMULATIVE, ["Hello ,", "Hello, you"])
