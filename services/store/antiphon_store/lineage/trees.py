"""From the stored responses of a subtree to what is shown of it: pure functions over `Node`s, the same for all engines.

    readable   shown, and counted by its parent
    otherwise  shown in a tree if something below it is readable, so that the tree stays connected; not counted

Whether an unreadable response is still stored makes no difference, so reclaiming space never changes an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest

from antiphon_core.ports.lineage import TreeNode
from antiphon_store.values import Node, Position, Slice


def tree(twigs: Sequence[Node], *, after: Position | None, limit: int) -> Slice[TreeNode]:
    """A slice of all that is shown, by depth, then by birth and id."""
    connected = _connected(twigs)
    counts = Counter(twig.parent_id for twig in twigs if twig.is_readable)
    shown = (twig for twig in twigs if twig.is_readable or twig.id in connected)
    return _slice(shown, counts, _by_depth, after=after, limit=limit)


def leaves(twigs: Sequence[Node], *, below: str, after: Position | None, limit: int) -> Slice[TreeNode]:
    """A slice of what is readable below `below` and has nothing readable below itself, by birth and id."""
    connected = _connected(twigs)
    ends = (twig for twig in twigs if twig.is_readable and twig.id not in connected and twig.id != below)
    return _slice(ends, Counter(), _by_birth, after=after, limit=limit)


def _connected(twigs: Iterable[Node]) -> set[str]:
    """The ids of all that have something readable below them."""
    parents = {twig.id: twig.parent_id for twig in twigs}
    connected: set[str] = set()
    for twig in twigs:
        above = twig.parent_id if twig.is_readable else None
        while above is not None and above in parents and above not in connected:
            connected.add(above)
            above = parents[above]
    return connected


def _slice(
    twigs: Iterable[Node],
    counts: Counter[str | None],
    order: Callable[[Node | Position], tuple[object, ...]],
    *,
    after: Position | None,
    limit: int,
) -> Slice[TreeNode]:
    rest = (twig for twig in twigs if after is None or order(twig) > order(after))
    chosen = nsmallest(limit + 1, rest, key=order)
    return Slice([_node(twig, counts[twig.id]) for twig in chosen[:limit]], has_more=len(chosen) > limit)


def _by_depth(twig: Node | Position) -> tuple[int, int, str]:
    return twig.depth, twig.created_at_ms, twig.id


def _by_birth(twig: Node | Position) -> tuple[int, str]:
    return twig.created_at_ms, twig.id


def _node(twig: Node, child_count: int) -> TreeNode:
    return TreeNode(
        id=twig.id,
        parent_id=twig.parent_id,
        status=twig.status if twig.is_readable else None,
        depth=twig.depth,
        child_count=child_count,
        created_at_ms=twig.created_at_ms,
    )
