from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from antiphon_core.request.models import Exact, Open, json_kind, type_tag


class Strict(Exact):
    size: int


class Tolerant(Open):
    size: int


def test_an_exact_model_rejects_unknown_members() -> None:
    with pytest.raises(ValidationError, match="colour"):
        Strict.model_validate({"size": 1, "colour": "red"})


def test_an_open_model_keeps_unknown_members() -> None:
    given = {"size": 1, "colour": "red"}
    assert Tolerant.model_validate(given).model_dump() == given


@pytest.mark.parametrize("model", [Strict, Tolerant])
def test_exact_and_open_models_do_not_convert_types(model: type[Strict] | type[Tolerant]) -> None:
    with pytest.raises(ValidationError, match="size"):
        model.model_validate({"size": "1"})


@pytest.mark.parametrize(
    ("value", "tag"), [("a", "~string"), (["a"], "~array"), ({"a": 1}, "~object"), (1, None), (None, None)]
)
def test_json_kind_tags_strings_arrays_and_objects_only(value: object, tag: str | None) -> None:
    assert json_kind(value) == tag


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ({"type": "text"}, "~text"),
        (SimpleNamespace(type="text"), "~text"),  # pydantic also asks for objects, when it serializes them
        ({"type": 1}, "~1"),
        ({"kind": "text"}, None),
        ("text", None),
    ],
)
def test_type_tag_is_the_type_member_of_an_object(value: object, tag: str | None) -> None:
    assert type_tag(value) == tag
