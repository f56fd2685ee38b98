"""Forms of single members; whole streams are in test_chat_stream.py."""

from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.engines.chat_calls import CallPiece
from antiphon_translator.engines.chat_delta import TextPiece, list_member, pieces_of
from antiphon_translator.parsing.segments import Reasoning, Text
from tests.support.unread import NotedParts


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_pieces_come_in_the_order_of_a_models_output() -> None:
    delta = {"tool_calls": [{"index": 1, "function": {"name": "f"}}], "content": "a", "reasoning": "r"}
    assert list(pieces_of({"delta": delta}, NotedParts())) == [
        TextPiece(Reasoning, "r"),
        TextPiece(Text, "a"),
        CallPiece(1, None, "f", ""),
    ]


@pytest.mark.parametrize(
    ("call", "piece"),
    [
        ({"index": "2", "id": 7, "function": {"name": "f"}}, CallPiece(2, "7", "f")),
        ({"index": True, "id": "", "function": {"name": 7, "arguments": None}}, CallPiece()),
        ({"function": {"name": "f", "parameters": {"a": 1}}}, CallPiece(None, None, "f", '{"a":1}')),
        ({"custom": {"name": "f", "input": "x"}}, CallPiece(None, None, "f", '{"input":"x"}')),
        ({}, CallPiece()),
    ],
)
def test_members_of_a_call_are_read_in_their_forms(call: Object, piece: CallPiece) -> None:
    assert list(pieces_of({"delta": {"tool_calls": [call]}}, NotedParts())) == [piece]


@pytest.mark.parametrize(("value", "elements"), [(None, []), ("", []), ([1, 2], [1, 2]), (7, [7]), ({}, [{}])])
def test_single_value_counts_as_a_list_of_one(value: object, elements: list[object]) -> None:
    assert list_member(value) == elements


@pytest.mark.parametrize(
    ("delta", "part"),
    [
        ({"tool_calls": [{"function": {"name": "f", "arguments": {"x": float("nan")}}}]}, "tool_calls"),
        ({"tool_calls": [{"index": "9" * 5_000, "function": {"name": "f"}}]}, "tool_calls"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": nested(5_000)}}]}, "tool_calls"),
        ({"content": nested(5_000)}, "content"),
    ],
    ids=["no number", "thousands of digits", "deep arguments", "deep content"],
)
def test_piece_that_cannot_be_read_is_noted(delta: Object, part: str) -> None:
    unread = NotedParts()
    assert not list(pieces_of({"delta": delta}, unread))
    assert unread.parts == [part]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "refusal"])
def test_text_that_is_nested_too_deep_loses_nothing_else(name: str) -> None:
    delta = {name: nested(5_000), "content": "a"}
    assert list(pieces_of({"delta": delta}, NotedParts())) == [TextPiece(Text, "a")]
