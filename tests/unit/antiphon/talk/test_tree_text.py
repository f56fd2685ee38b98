from __future__ import annotations

from antiphon.talk import tree_text
from antiphon_core.jsons import Object


def node(response_id: str, depth: int, status: str | None = "completed") -> Object:
    return {"id": response_id, "depth": depth, "status": status}


def test_tree_lines_are_indented_by_depth_with_a_status_sign() -> None:
    nodes = [node("a", 3), node("b", 4, "failed"), node("c", 4, None)]
    assert list(tree_text.lines(nodes, marked="b", texts={"a": "Hello\nthere"})) == [
        "● a  Hello there",
        "  ✗ b  ◀ here",
        "  · c",
    ]


def test_long_texts_are_cut() -> None:
    assert tree_text.shorten("word " * 50) == ("word " * 50)[: tree_text.TEXT_CHARS_MAX - 1] + "…"


def test_the_text_of_a_response_has_no_reasoning() -> None:
    output = [{"type": "reasoning", "content": [{"text": "hm"}]}, {"type": "message", "content": [{"text": "Hi"}]}]
    assert tree_text.output_text({"output": output}) == "Hi"


def test_a_text_executes_no_escape_sequences() -> None:
    assert "\x1b" not in tree_text.shorten("\x1b]0;title\x07 hello")
