from __future__ import annotations

import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import (
    compact,
    dumps,
    has_values_over,
    join_arrays,
    kind,
    loads,
    parse_array,
    parse_object,
    with_member,
    work_bytes,
)
from antiphon_core.limits import JSON_DEPTH_MAX, JSON_VALUES_MAX

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
JSON = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=4), SCALARS, max_size=3)


@given(st.lists(st.lists(JSON, max_size=4), max_size=4))
def test_joining_arrays_as_bytes_is_joining_them_as_values(arrays: list[list[Any]]) -> None:
    joined = join_arrays(dumps(array) for array in arrays)
    assert loads(joined) == [element for array in arrays for element in array]


def test_joining_keeps_the_bytes_of_elements() -> None:
    assert join_arrays([b'[{"a": 1.50}]', b"[ ]", b" [ 2 ] "]) == b'[{"a": 1.50},2]'


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4), JSON)
def test_with_member_adds_one_member(body: dict[str, Any], value: Any) -> None:
    body.pop("output", None)
    assert loads(with_member(dumps(body), "output", dumps(value))) == body | {"output": value}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "could not be parsed"),
        (b"{", "could not be parsed"),
        (b'{"a": NaN}', "could not be parsed"),
        (b'{"a": "\\ud800"}', "could not be parsed"),
        (b'"\xff"', "could not be parsed"),
        (b"[1]", "must be a JSON object, but is an array"),
        (b"null", "must be a JSON object, but is null"),
        (b"[" * 5_000, "could not be parsed"),
    ],
)
def test_invalid_json_or_a_value_other_than_an_object_is_rejected(data: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        parse_object(data)


def test_a_wrong_json_type_is_rejected_with_its_field() -> None:
    with pytest.raises(InvalidRequest, match="'input' must be a JSON array, but is an object") as caught:
        parse_array(b"{}", field="input")
    assert (caught.value.field, caught.value.code) == ("input", "invalid_type")


@pytest.mark.parametrize(("levels", "accepted"), [(JSON_DEPTH_MAX, True), (JSON_DEPTH_MAX + 1, False)])
def test_json_nested_too_deeply_is_rejected(levels: int, accepted: bool) -> None:
    nested = b'{"a":' * levels + b"1" + b"}" * levels
    if accepted:
        assert parse_object(nested)
    else:
        with pytest.raises(InvalidRequest, match="nested deeper than"):
            parse_object(nested)


@pytest.mark.parametrize(
    ("text", "name"),
    [(b"{}", "an object"), (b"true", "a boolean"), (b"1", "an integer"), (b"1.5", "a number"), (b"null", "null")],
)
def test_json_kinds_have_readable_names(text: bytes, name: str) -> None:
    assert kind(orjson.loads(text)) == name


MARKED = st.text(st.sampled_from('ab,[{]}"\\\n\u00e9'), max_size=30)
DEEP = st.recursive(SCALARS | MARKED, lambda inner: st.lists(inner) | st.dictionaries(MARKED, inner), max_leaves=30)


def separators(value: Any) -> int:
    """Commas and opening brackets in the JSON of a value."""
    if not isinstance(value, dict | list):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return max(1, len(inner)) + sum(map(separators, inner))


@given(DEEP, st.integers(1, 9))
def test_values_are_counted_without_parsing(value: Any, piece_bytes: int) -> None:
    data, count = dumps(value), separators(value)
    assert not has_values_over(data, count, piece_bytes=piece_bytes)
    assert count == 0 or has_values_over(data, count - 1, piece_bytes=piece_bytes)


@pytest.mark.parametrize("values", [b"[]", b"{}", b"1", b'""', b'{"a":1}'])
def test_too_many_values_are_refused(values: bytes) -> None:
    array = b"[" + b",".join([values] * (JSON_VALUES_MAX + 1)) + b"]"
    with pytest.raises(InvalidRequest, match=f"'input' has more than {JSON_VALUES_MAX} values"):
        parse_array(array, field="input")
    assert len(parse_array(array, is_known=True)) == JSON_VALUES_MAX + 1


def test_many_small_values_are_more_work_than_a_text() -> None:
    text, values = dumps("x" * 3_000), dumps([1] * 1_500)
    assert work_bytes(text) == len(text)
    assert work_bytes(values) == 32 * 1_500 > 10 * len(values)


def test_commas_and_brackets_inside_texts_are_not_counted() -> None:
    text = ",[{" * JSON_VALUES_MAX
    assert parse_array(dumps([text])) == [text]


@given(DEEP)
def test_everything_that_was_parsed_can_be_written(value: Any) -> None:
    assert loads(dumps(parse_array(dumps([value])))) == [value]


def test_known_json_is_not_checked_for_depth_again() -> None:
    deep = b"[" * (JSON_DEPTH_MAX + 2) + b"]" * (JSON_DEPTH_MAX + 2)
    with pytest.raises(InvalidRequest, match="nested deeper"):
        parse_array(deep)
    assert parse_array(deep, is_known=True)
    for wrong in (b"{}", b"[", b""):
        with pytest.raises(InvalidRequest):
            parse_array(wrong, is_known=True)


def test_compact_json_uses_little_more_memory_than_its_bytes() -> None:
    tracemalloc.start()
    try:
        kept = [compact({"number": number}) for number in range(100)]
        assert tracemalloc.get_traced_memory()[0] < 100 * 200
    finally:
        tracemalloc.stop()
    assert kept[7] == b'{"number":7}'


def test_an_array_may_have_another_number_of_values() -> None:
    assert parse_array(b"[1,2]", values_max=2) == [1, 2]
    with pytest.raises(InvalidRequest, match="'items' has more than 1 values"):
        parse_array(b"[1,2]", field="items", values_max=1)


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ('{"a": 1}'.encode("utf-16"), "It looks like UTF-16: send UTF-8"),
        ('{"a": 1}'.encode("utf-16-le"), "It looks like UTF-16: send UTF-8"),
        ('{"a": 1}'.encode("utf-16-be"), "It looks like UTF-16: send UTF-8"),
        (b'{"a": "\\ud83d"}', "half a UTF-16 surrogate pair"),
        (b'{"a": "\\ude00"}', "half a UTF-16 surrogate pair"),
        (b'{"a": "\\ud83dx"}', "half a UTF-16 surrogate pair"),
    ],
)
def test_json_that_is_no_unicode_text_is_rejected_with_a_hint(body: bytes, hint: str) -> None:
    with pytest.raises(InvalidRequest, match=hint):
        parse_object(body)
