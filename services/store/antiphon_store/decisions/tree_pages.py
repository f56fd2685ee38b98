"""Pages of a tree: pure functions of the nodes that are stored of it.

    readable   shown, and counted by its parent
    otherwise  shown in a tree if something below it is readable, so that the tree stays connected; not counted

A node that cannot be read has no status. Whether it is still stored makes no difference, so reclaiming space never
changes an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import nsmallest

from antiphon_core.ports.lineage import TreeNode
from antiphon_store.cursors import Position


def tree(nodes: Sequence[TreeNode], *, after: Position | None, limit: int) -> list[TreeNode]:
    """A page of all that is shown, by depth, then by birth and id, and one node more if there are more."""
    connected = _connected(nodes)
    shown = (node for node in nodes if node.status or node.id in connected)
    found = _first(shown, _by_depth, after, limit)
    counts = Counter(node.parent_id for node in nodes if node.status)
    return [replace(node, child_count=counts[node.id]) for node in found]


def leaves(nodes: Sequence[TreeNode], *, below: str, after: Position | None, limit: int) -> list[TreeNode]:
    """A page of what is readable below `below` and has nothing readable below itself, by birth and id, and one node
    more if there are more."""
    connected = _connected(nodes)
    ends = (node for node in nodes if node.status and node.id not in connected and node.id != below)
    return _first(ends, _by_birth, after, limit)


def _connected(nodes: Iterable[TreeNode]) -> set[str]:
    """The ids of all that have something readable below them."""
    parents = {node.id: node.parent_id for node in nodes}
    connected: set[str] = set()
    for node in nodes:
        above = node.parent_id if node.status else None
        while above is not None and above in parents and above not in connected:
            connected.add(above)
            above = parents[above]
    return connected


def _first(
    nodes: Iterable[TreeNode],
    order: Callable[[TreeNode | Position], tuple[object, ...]],
    after: Position | None,
    limit: int,
) -> list[TreeNode]:
    rest = (node for node in nodes if after is None or order(node) > order(after))
    return nsmallest(limit + 1, rest, key=order)


def _by_depth(node: TreeNode | Position) -> tuple[int, int, str]:
    return node.depth, node.created_at_ms, node.id


def _by_birth(node: TreeNode | Position) -> tuple[int, str]:
    return node.created_at_ms, node.id
