from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from antiphon_core.request.models import Exact, Open, json_kind, type_tag


class Strict(Exact):
    size: int


class Tolerant(Open):
    size: int


def test_an_exact_model_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValidationError, match="colour"):
        Strict.model_validate({"size": 1, "colour": "red"})


def test_an_open_model_keeps_what_it_does_not_know() -> None:
    given = {"size": 1, "colour": "red"}
    assert Tolerant.model_validate(given).model_dump() == given


@pytest.mark.parametrize("model", [Strict, Tolerant])
def test_neither_reads_one_type_as_another(model: type[Strict] | type[Tolerant]) -> None:
    with pytest.raises(ValidationError, match="size"):
        model.model_validate({"size": "1"})


@pytest.mark.parametrize(
    ("value", "tag"), [("a", "~string"), (["a"], "~array"), ({"a": 1}, "~object"), (1, None), (None, None)]
)
def test_a_form_is_told_by_its_json_type(value: object, tag: str | None) -> None:
    assert json_kind(value) == tag


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ({"type": "text"}, "~text"),
        (SimpleNamespace(type="text"), "~text"),  # pydantic asks again when it writes what it has read
        ({"type": 1}, "~1"),
        ({"kind": "text"}, None),
        ("text", None),
    ],
)
def test_a_form_is_named_in_its_type(value: object, tag: str | None) -> None:
    assert type_tag(value) == tag
