"""Pages of a small part of a tree: pure functions of its stored nodes.

    readable node     shown, and counted as a child of its parent
    unreadable node   shown in a tree if a node below it is readable, so that the tree stays connected; not counted

An unreadable node has no status. Nodes that cleanup may delete are not shown, so cleanup never changes an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import nsmallest

from antiphon_core.ports.lineage import Node
from antiphon_store.cursors import Position


def tree(nodes: Sequence[Node], *, after: Position | None, limit: int) -> list[Node]:
    """A page of the shown nodes, by depth, creation time and id, and one more node if there are more."""
    has_readable_below = find_connected(nodes)
    shown = (node for node in nodes if node.status or node.id in has_readable_below)
    found = _first(shown, _by_depth, after, limit)
    counts = Counter(node.parent_id for node in nodes if node.status)
    return [replace(node, child_count=counts[node.id]) for node in found]


def leaves(nodes: Sequence[Node], *, below: str, after: Position | None, limit: int) -> list[Node]:
    """A page of the readable nodes below `below` that have no readable node below them, by creation time and id, and
    one more node if there are more."""
    has_readable_below = find_connected(nodes)
    ends = (node for node in nodes if node.status and node.id not in has_readable_below and node.id != below)
    return _first(ends, _by_creation, after, limit)


def find_connected(nodes: Iterable[Node]) -> set[str]:
    """The ids of the nodes that have a readable node below them."""
    parents = {node.id: node.parent_id for node in nodes}
    found: set[str] = set()
    for node in nodes:
        above = node.parent_id if node.status else None
        while above is not None and above in parents and above not in found:
            found.add(above)
            above = parents[above]
    return found


def _first(
    nodes: Iterable[Node],
    order: Callable[[Node | Position], tuple[object, ...]],
    after: Position | None,
    limit: int,
) -> list[Node]:
    rest = (node for node in nodes if after is None or order(node) > order(after))
    return nsmallest(limit + 1, rest, key=order)


def _by_depth(node: Node | Position) -> tuple[int, int, str]:
    return node.depth, node.created_at_ms, node.id


def _by_creation(node: Node | Position) -> tuple[int, str]:
    return node.created_at_ms, node.id
