from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.jsons import loads
from antiphon_store.backends.redis import programs
from antiphon_store.rows.model import (
    Add,
    Applied,
    Chain,
    ChainRows,
    Condition,
    Fewer,
    File,
    Get,
    Grow,
    Guard,
    Index,
    Kind,
    Now,
    Partition,
    Payload,
    Program,
    Put,
    Read,
    Ref,
    Rejection,
    Row,
    Set,
)

PARTITION = Partition("acme", "tree")
SESSION = Ref(Kind.SESSION, "conv")
NODE = Ref(Kind.NODE, "resp")


def written(*changes: Any, **rest: Any) -> tuple[Any, list[bytes]]:
    program, *payloads = programs.arguments(PARTITION, Program(changes=changes, **rest))
    return loads(program), payloads


def test_payloads_are_separate_arguments_referenced_by_number() -> None:
    (_, _, changes, _), payloads = written(Put(NODE, {}, b"items", b"body"), Set(NODE, {}, None, b""))
    assert payloads == [b"items", b"body"]
    assert [each[-2:] for each in changes] == [[3, 4], [-1, 0]]


def test_fields_are_written_as_lines_and_computed_fields_follow() -> None:
    fields = {"head": 'a"\n', "list": [1, {"b": None}], "fence": Add(2), "until": Now(-5)}
    (_, _, ((*_, text, computed, _, _),), _), _ = written(Set(SESSION, fields))
    assert text.split("\n") == ["", ',"head":"a\\"\\n"', ',"list":[1,{"b":null}]']
    assert computed == ["fence", "add", 2, "until", "now", -5]


def test_a_grow_change_is_written_with_its_parent_and_session() -> None:
    (_, _, (grow,), _), _ = written(Grow("resp", None, {"session": "conv"}))
    assert grow[:4] == ["grow", "resp", None, "conv"]


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (True, "true"), (False, "false"), (None, "null"), ("1", '"1"'), (2, "2")]
)
def test_a_guard_is_written_with_the_json_text_of_its_value(value: Any, text: str) -> None:
    (((test, *_, found),), _, _, _), _ = written(guards=[Guard(SESSION, Condition.IS, "odd", value)])
    assert (test, found) == ("in", f"\n{text}\n")


def test_entries_and_count_guards_are_written_with_their_redis_keys() -> None:
    (guards, _, changes, _), _ = written(
        File(Index.FOREIGN, "i", "resp", 7),
        File(Index.FOREIGN, "i", "resp", Now(7)),
        guards=[Fewer(Index.MADE, "conv", 3)],
    )
    assert guards == [["fewer", "antiphon:{acme:tree}:made:conv", 3]]
    assert [each[1:] for each in changes] == [["antiphon:{acme:foreign:i}", "resp", at] for at in ("7", "+7")]


def test_answers_come_back_in_the_order_of_the_reads() -> None:
    reads: list[Read] = [Get(SESSION), Chain("resp", Payload.ITEMS, 9, 9), Get(NODE)]
    chain = [b"b", [b'\n,"parent":"a"', b'\n,"parent":null'], [[b"2"], [None]], []]
    answer = [b"ok", b"applied", 5, [chain], [[b'\n,"v":1\n,"head":"{,"', None, None], None]]
    applied = programs.outcome(Program(reads=reads), answer)
    expected = ChainRows(["a", "b"], [{"parent": None}, {"parent": "a"}], [b"", b"2"], [b"", b""])
    assert applied == Applied(5, [Row({"v": 1, "head": "{,"}), expected, None])


def test_a_refused_program_is_answered_with_the_rows_of_its_guards() -> None:
    program = Program([Fewer(Index.MADE, "conv", 3), Guard(NODE, Condition.PRESENT), Guard(SESSION, Condition.ABSENT)])
    answer = [b"ok", b"refused", 5, [[2, None, None, None], [3, b'\n,"v":1', b"i", b"b"]], 1]
    rows = {NODE: None, SESSION: Row({"v": 1}, b"i", b"b")}
    assert programs.outcome(program, answer) == Rejection(5, rows, is_crowded=True)
    assert programs.outcome(Program(), [b"ok", b"depth", 5]) == Rejection(5, {}, too_long="depth")
