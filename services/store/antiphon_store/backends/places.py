"""Where a response stands: branch and depth in one integer, the order of the node table.

`depth` counts the ancestors of a response; along a branch it grows by one. Branch ids grow as well, so every ancestor
has a smaller place than its descendants, and sorting by place puts the root first.
"""

from __future__ import annotations

DEPTH_BITS = 24
DEPTH_MAX = (1 << DEPTH_BITS) - 1


def place_of(branch: int, depth: int) -> int:
    return branch << DEPTH_BITS | depth


def branch_of(place: int) -> int:
    return place >> DEPTH_BITS


def depth_of(place: int) -> int:
    return place & DEPTH_MAX
