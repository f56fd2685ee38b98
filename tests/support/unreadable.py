"""Puts garbage into one member of a stream of chat completions chunks, beside those that hold the answer."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from antiphon_core.jsons import Object

_ANSWER = {
    *("choices", "index", "delta", "message", "content", "reasoning", "reasoning_content"),
    *("tool_calls", "function", "name", "arguments", "finish_reason", "error", "object"),
}
_OTHERS = ("logprobs", "usage", "audio", "annotations", "thinking_blocks", "system_fingerprint")
_GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def spoil(chunks: Sequence[Object], data: st.DataObject) -> None:
    """Replaces one member of one object, or adds one, in place."""
    place = data.draw(st.sampled_from([place for chunk in chunks for place in _objects_in(chunk)]))
    given = [name for name in place if name not in _ANSWER and not (name == "id" and "function" in place)]
    place[data.draw(st.sampled_from([*given, *_OTHERS]))] = data.draw(_GARBAGE)


def _objects_in(value: object) -> list[Object]:
    match value:
        case dict():
            return [value, *(found for each in value.values() for found in _objects_in(each))]
        case list():
            return [found for each in value for found in _objects_in(each)]
    return []
