from __future__ import annotations

from antiphon_core.ports.lineage import Node
from antiphon_core.ports.store import Status
from antiphon_store.cursors import Position
from antiphon_store.decisions import tree_pages


def stored(name: str, parent: str | None = None, *, depth: int = 0, born: int = 0, is_readable: bool = True) -> Node:
    return Node(name, parent, Status.COMPLETED if is_readable else None, depth, 0, born)


# a ─ b (gone) ─ c
#   └ d ─ e (gone)
NODES = [
    stored("e", "d", depth=2, born=1, is_readable=False),
    stored("c", "b", depth=2, born=9),
    stored("a"),
    stored("d", "a", depth=1, born=5),
    stored("b", "a", depth=1, born=7, is_readable=False),
]


def test_a_tree_shows_readable_nodes_and_their_connecting_ancestors() -> None:
    found = tree_pages.tree(NODES, after=None, limit=10)
    assert [(node.id, node.status, node.child_count) for node in found] == [
        ("a", Status.COMPLETED, 1),
        ("d", Status.COMPLETED, 0),
        ("b", None, 1),
        ("c", Status.COMPLETED, 0),
    ]


def test_a_tree_page_continues_behind_its_position() -> None:
    found = tree_pages.tree(NODES, after=Position(1, 5, "d"), limit=1)
    assert [node.id for node in found] == ["b", "c"]  # one more than `limit`, which shows that there are more
    found = tree_pages.tree(NODES, after=Position(1, 6, "no longer there"), limit=2)
    assert [node.id for node in found] == ["b", "c"]


def test_leaves_are_ordered_by_birth() -> None:
    found = tree_pages.leaves(NODES, below="a", after=None, limit=10)
    assert [node.id for node in found] == ["d", "c"]
    found = tree_pages.leaves(NODES, below="a", after=Position(7, 5, "d"), limit=10)
    assert [node.id for node in found] == ["c"]


def test_a_response_is_not_below_itself() -> None:
    assert tree_pages.leaves([stored("a")], below="a", after=None, limit=10) == []
