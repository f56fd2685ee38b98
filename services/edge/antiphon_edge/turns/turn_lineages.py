"""The lineages that a turn takes along from its history, as bytes that only translators read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from antiphon_core.limits import LINEAGE_BYTES_MAX


def choose_lineages(lineages: Sequence[bytes], *, bytes_max: int = LINEAGE_BYTES_MAX) -> tuple[bytes, ...]:
    """Returns all lineages if they have at most `bytes_max` bytes, else the newest one and the first ones that fit into
    half of the bytes. The others are empty. One lineage has at most LINEAGE_BYTES_MAX.

    The first ones decide on the ids at the beginning of every prompt of a chain. If another one were left out in each
    turn, ids would change at another place each time, and the engine would compute all that follows again. The newest
    one says where the engine has the chain."""
    if sum(map(len, lineages)) <= bytes_max:
        return tuple(lineages)
    *earlier, newest = lineages
    sizes = accumulate(map(len, earlier))
    kept = (each if size <= bytes_max // 2 else b"" for each, size in zip(earlier, sizes, strict=True))
    return (*kept, newest)
