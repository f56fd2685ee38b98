from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps, join_arrays, kind, loads, parse_array, parse_object, with_member
from antiphon_core.limits import JSON_DEPTH_MAX

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
def test_what_is_not_an_object_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        parse_object(data)


def test_the_field_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'input' must be a JSON array, but is an object") as caught:
        parse_array(b"{}", field="input")
    assert (caught.value.field, caught.value.code) == ("input", "invalid_type")


@pytest.mark.parametrize(("levels", "accepted"), [(JSON_DEPTH_MAX, True), (JSON_DEPTH_MAX + 1, False)])
def test_depth_is_bounded(levels: int, accepted: bool) -> None:
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
def test_kinds_are_named_for_people(text: bytes, name: str) -> None:
    assert kind(orjson.loads(text)) == name


def test_how_deep_known_elements_nest_is_not_looked_at_again() -> None:
    deep = b"[" * (JSON_DEPTH_MAX + 2) + b"]" * (JSON_DEPTH_MAX + 2)
    with pytest.raises(InvalidRequest, match="nested deeper"):
        parse_array(deep)
    assert parse_array(deep, is_known=True)
    for wrong in (b"{}", b"[", b""):
        with pytest.raises(InvalidRequest):
            parse_array(wrong, is_known=True)
