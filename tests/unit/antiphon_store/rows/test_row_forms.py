"""Forms of rows. tests/attacks/test_damaged_rows.py changes the rows of real databases."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_store.rows.model import Kind, Ref
from antiphon_store.rows.row_forms import NUMBER_MAX, are_sound, form_of
from antiphon_store.testing.subject import draft
from tests.support.rows import node

NODE = dict(node(draft()).fields)
SESSION = {"v": 1}
JOB = {
    **dict.fromkeys(("v", "max_attempts", "retention", "available", "attempts", "lease_until", "cancel"), 1),
    "queue": "q",
    "holder": "",
    "settled": None,
    "ended": None,
}
ROWS: dict[str, tuple[Ref, dict[str, Any]]] = {
    "node": (Ref(Kind.NODE, "resp"), NODE),
    "session": (Ref(Kind.SESSION, "s"), SESSION),
    "job": (Ref(Kind.JOB, "j"), JOB),
    "prompt": (Ref(Kind.PROMPT, "all/p"), {"v": 1, "created": 1, "latest": 1}),
    "count of prompts": (Ref(Kind.PROMPT, "count"), {"v": 1, "prompts": 1}),
    "version of a prompt": (Ref(Kind.PROMPT, "p/1"), {"v": 1}),
    "marker of encryption": (Ref(Kind.QUOTA, "keys"), {"v": 1}),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_without_a_field_that_it_needs_does_not_fit(name: str) -> None:
    ref, fields = ROWS[name]
    assert form_of(ref).fits(fields)
    assert form_of(ref).fits({**fields, "of a newer release": {}})
    for each in fields:
        assert not form_of(ref).fits({other: value for other, value in fields.items() if other != each}), each


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("node", {"depth": -1}),
        ("node", {"depth": 1.0}),
        ("node", {"created": NUMBER_MAX + 1}),
        ("node", {"deleted": "no"}),
        ("node", {"status": "done"}),
        ("node", {"parent": 7}),
        ("node", {"v": True}),
        ("session", {"removed": ["a", 1]}),
        ("session", {"source": ["a", None]}),
        ("job", {"ended": ["lost", "", 1]}),
        ("job", {"ended": ["failed", "", -1]}),
        ("job", {"settled": [1, "failed"]}),
        ("marker of encryption", {"buckets": {"requests": ["1", 2, 3, 4]}}),
        ("marker of encryption", {"slots": {"a": None}}),
    ],
)
def test_a_row_with_a_value_that_no_rule_writes_does_not_fit(name: str, changed: dict[str, Any]) -> None:
    ref, fields = ROWS[name]
    assert not form_of(ref).fits({**fields, **changed})


def test_types_that_fit_are_remembered_and_others_are_not() -> None:
    form = form_of(Ref(Kind.NODE, "resp"))
    for expires in (None, 5, "x", 5, None, "x"):
        assert form.fits({**NODE, "expires": expires}) is (expires != "x")


@pytest.mark.parametrize("changed", [{}, {"expires": 5}, {"parent": "resp_a"}, {"items_crc": "sealed-1:x"}])
def test_nodes_that_fit_one_by_one_are_sound_together(changed: dict[str, Any]) -> None:
    assert form_of(Ref(Kind.NODE, "resp")).fits({**NODE, **changed})
    assert are_sound([NODE, {**NODE, **changed}])


@pytest.mark.parametrize(
    "changed", [{"depth": None}, {"expires": ""}, {"expires": {}}, {"status": "x"}, {"parent": []}]
)
def test_nodes_of_which_one_does_not_fit_are_not_sound(changed: dict[str, Any]) -> None:
    assert not form_of(Ref(Kind.NODE, "resp")).fits({**NODE, **changed})
    try:
        sound = are_sound([NODE, {**NODE, **changed}])
    except TypeError:
        sound = False
    assert not sound
