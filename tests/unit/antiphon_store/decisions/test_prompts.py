"""Stored prompts: a row for each prompt, a row for each version, and the count of prompts."""

from __future__ import annotations

from functools import partial

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, NotFound, VersionMismatch
from antiphon_store.decisions import prompts
from antiphon_store.rows.model import Kind, Row
from tests.support.rows import NOW_MS, answered, pins, shown, view_of

ID = "pmpt_1"
PROMPT, COUNT = (Kind.PROMPT, f"all/{ID}"), (Kind.PROMPT, "count")
FIRST, SECOND = ((Kind.PROMPT, f"{ID}/0000000{number}") for number in (1, 2))
MADE = Row({"v": 1, "created": 7, "latest": 1})
ONE = Row({"v": 1}, b"one")


def test_the_first_version_makes_the_prompt() -> None:
    view = view_of({PROMPT: None, FIRST: None, COUNT: None})
    made = prompts.put(view, ID, 1, b"one")(())
    assert (made.version, made.latest_version, made.created_at_ms, made.content) == (1, 1, NOW_MS, b"one")
    assert shown(view.program()) == [("set", *COUNT), ("put", *PROMPT), ("put", *FIRST)]
    assert pins(view.program()) == {PROMPT, FIRST, COUNT}


def test_a_new_version_keeps_earlier_versions() -> None:
    view = view_of({PROMPT: MADE, SECOND: None, COUNT: None})
    made = prompts.put(view, ID, 2, b"two")(())
    assert (made.version, made.latest_version, made.created_at_ms) == (2, 2, 7)
    assert shown(view.program()) == [("set", *PROMPT), ("put", *SECOND)]


def test_storing_an_existing_version_again_changes_nothing() -> None:
    view = view_of({PROMPT: MADE, FIRST: ONE, COUNT: None})
    assert prompts.put(view, ID, 1, b"one")(()).content == b"one"
    assert shown(view.program()) == []


@pytest.mark.parametrize(("version", "row"), [(1, FIRST), (3, (Kind.PROMPT, f"{ID}/00000003"))])
def test_only_the_next_version_is_added(version: int, row: tuple[Kind, str]) -> None:
    with pytest.raises(VersionMismatch):
        prompts.put(view_of({PROMPT: MADE, row: ONE if version == 1 else None, COUNT: None}), ID, version, b"other")


def test_a_prompt_beyond_the_limit_of_the_tenant_is_rejected() -> None:
    full = Row({"v": 1, "prompts": limits.STORED_PROMPTS_ITEMS_MAX})
    with pytest.raises(InvalidRequest) as raised:
        prompts.put(view_of({PROMPT: None, FIRST: None, COUNT: full}), ID, 1, b"one")
    assert raised.value.code == "too_many_prompts"
    prompts.put(view_of({PROMPT: MADE, SECOND: None, COUNT: full}), ID, 2, b"two")


def test_the_latest_version_is_read_unless_one_is_named() -> None:
    rows = {PROMPT: MADE, FIRST: ONE}
    assert answered(partial(prompts.get, prompt_id=ID, version=None), rows).content == b"one"
    assert answered(partial(prompts.get, prompt_id=ID, version=1), rows).version == 1
    with pytest.raises(NotFound, match="has no version 2"):
        prompts.get(view_of({PROMPT: MADE, SECOND: None}), ID, 2)
    with pytest.raises(NotFound, match="not found"):
        prompts.get(view_of({PROMPT: None}), ID, None)


def test_prompts_are_listed_in_order_of_creation() -> None:
    view = view_of({})
    finish = prompts.list_all(view)
    found = finish([[("all/pmpt_b", MADE), ("all/pmpt_a", Row({"v": 1, "created": 8, "latest": 3}))]])
    assert [(each.id, each.version) for each in found] == [("pmpt_b", 1), ("pmpt_a", 3)]


def test_deleting_a_prompt_removes_all_its_versions() -> None:
    for count, last in ((2, "set"), (1, "delete")):
        view = view_of({PROMPT: MADE, COUNT: Row({"prompts": count, "v": 1})})
        prompts.delete(view, ID)
        assert [each[0] for each in shown(view.program())] == ["delete", "delete_below", last]
    with pytest.raises(NotFound):
        prompts.delete(view_of({PROMPT: None, COUNT: None}), ID)
