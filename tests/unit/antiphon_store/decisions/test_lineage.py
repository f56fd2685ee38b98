"""Reads of trees: their programs, and the results made of the answers."""

from __future__ import annotations

from functools import partial

import pytest

from antiphon_core.errors import ChainTooLong, ResponseNotFound
from antiphon_core.ports.lineage import Node
from antiphon_core.ports.store import Status
from antiphon_store.decisions import lineage
from antiphon_store.rows.model import Chain, Condition, Entry, Get, Kind, Payload, Range, Ref, Row
from antiphon_store.rows.view import UnknownRow, View
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, answered, chain_rows, decided, guards_on, node, row

ROOT = draft()
CHILD = draft(ROOT)
CHAIN = chain_rows([(ROOT.id, node(ROOT)), (CHILD.id, node(CHILD, depth=1))])
REF = (Kind.NODE, CHILD.id)


def test_ancestry_is_one_program_with_all_payloads() -> None:
    view = View({})
    finish = lineage.chain(view, CHILD.id, max_depth=5, max_bytes=500)
    assert guards_on(view.program(), Kind.NODE) == [(Condition.IS, "deleted", 0), (Condition.AHEAD, "expires", None)]
    assert view.program().reads == [Chain(CHILD.id, Payload.ALL, 5, 500)]
    assert [(each.id, each.depth) for each in finish([CHAIN])] == [(ROOT.id, 0), (CHILD.id, 1)]


def test_the_fields_of_a_response_are_read_without_payloads() -> None:
    view = View({})
    finish = lineage.readable_fields(view, CHILD.id)
    assert view.program().reads == [Get(Ref(*REF), Payload.NONE)]
    assert finish([node(CHILD, depth=1)])["depth"] == 1


@pytest.mark.parametrize("there", [None, node(CHILD, deleted=1), node(CHILD, expires=NOW_MS)])
def test_the_ancestry_of_an_unreadable_response_is_not_found(there: Row | None) -> None:
    for decision in (
        partial(lineage.chain, response_id=CHILD.id, max_depth=5, max_bytes=500),
        partial(lineage.readable_fields, response_id=CHILD.id),
    ):
        with pytest.raises(ResponseNotFound):
            decided(decision, {REF: there})


@pytest.mark.parametrize(("bound", "limit"), [("depth", "5 responses"), ("bytes", "500 bytes")])
def test_ancestry_over_a_bound_is_refused(bound: str, limit: str) -> None:
    with pytest.raises(ChainTooLong) as caught:
        decided(
            partial(lineage.chain, response_id=CHILD.id, max_depth=5, max_bytes=500),
            {REF: node(CHILD)},
            too_long=bound,
        )
    assert limit in caught.value.message


@pytest.mark.parametrize(("session", "removed"), [(None, []), (row(), []), (row(removed=["a"]), ["a"])])
def test_the_context_of_a_session_is_its_chain_and_its_removed_items(session: Row | None, removed: list[str]) -> None:
    found = lineage.context_ids(View({}), "s")([session, CHAIN])
    assert found == (frozenset({ROOT.id, CHILD.id}), frozenset(removed))


def test_rows_are_read_together_and_returned_with_the_time() -> None:
    ids = [ROOT.id, CHILD.id]
    with pytest.raises(UnknownRow) as caught:
        decided(partial(lineage.rows_of, response_ids=ids))
    assert [each.id for each in caught.value.refs] == ids
    there = {(Kind.NODE, ROOT.id): node(ROOT), REF: None}
    assert answered(partial(lineage.rows_of, response_ids=ids), there) == (NOW_MS, [node(ROOT), None])


def test_all_sessions_of_a_tree_are_one_read() -> None:
    view = View({})
    finish = lineage.sessions_of(view)
    (read,) = view.program().reads
    assert isinstance(read, Range)
    assert (read.kind, read.prefix, read.start) == (Kind.SESSION, "", "")
    assert finish([[("s", row())]]) == [("s", row())]


@pytest.mark.parametrize(("now_ms", "readable"), [(29, True), (30, False)])
def test_an_expired_node_has_no_status_in_a_tree(now_ms: int, readable: bool) -> None:
    found = lineage.tree_node(Entry(CHILD.id, 0, node(CHILD, depth=1, expires=30)), now_ms)
    assert found == Node(CHILD.id, ROOT.id, Status.COMPLETED if readable else None, 1, 0, 10)
