"""The KV cache of one model server, as TensorRT-LLM documents its own (docs/source/features/kvcache.md): blocks in a
tree, evicted by priority and then by the time of their last use, leaves only; evicted ones may go to the host's memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

ONE_SHOT, NORMAL = 1, 2
"""Two of the five classes of priority: of requests whose blocks nobody will use again, and of all others."""
CLASSES = 5
_FIRST_PRIORITIES = (5, 30, 50, 70)
"""The lowest of TensorRT-LLM's priorities, 0 to 100, in each class behind the first: its default, 35, is NORMAL."""


def class_of(priority: int) -> int:
    """The class of a priority of 0 to 100."""
    return bisect_right(_FIRST_PRIORITIES, priority)


@dataclass(frozen=True, slots=True)
class Match:
    """The blocks of a prompt that are found, from its beginning: on the device, then in the host's memory."""

    device: int
    host: int


class KvCache:
    """`blocks_max` blocks on the device, `host_max` in the host's memory."""

    def __init__(self, blocks_max: int, *, host_max: int = 0) -> None:
        self._blocks_max = blocks_max
        self._host_max = host_max
        self._used: tuple[OrderedDict[bytes, None], ...] = tuple(OrderedDict() for _ in range(CLASSES))
        """The blocks of each class, the least recently used first."""
        self._class_of: dict[bytes, int] = {}
        self._parent: dict[bytes, bytes] = {}
        self._children: dict[bytes, int] = {}
        self._host: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._class_of)

    def match(self, blocks: Sequence[bytes]) -> Match:
        device = next((place for place, block in enumerate(blocks) if block not in self._class_of), len(blocks))
        behind = range(device, len(blocks))
        end = (
            next((place for place in behind if blocks[place] not in self._host), len(blocks)) if self._host else device
        )
        return Match(device, end - device)

    def use(self, blocks: Sequence[bytes], priority: int = NORMAL) -> None:
        """Puts the blocks of a whole prompt into the cache, or uses them again; then evicts what is too much."""
        for place in range(len(blocks) - 1, -1, -1):  # the last ones first, so that leaves are the oldest
            self._touch(blocks[place], blocks[place - 1] if place else b"", priority)
        while len(self._class_of) > self._blocks_max:
            self._evict()

    def clear(self) -> None:
        for used in self._used:
            used.clear()
        self._class_of.clear()
        self._parent.clear()
        self._children.clear()
        self._host.clear()

    def _touch(self, block: bytes, parent: bytes, priority: int) -> None:
        known = self._class_of.get(block)
        if known is None:
            self._parent[block] = parent
            self._children[parent] = self._children.get(parent, 0) + 1
            self._host.pop(block, None)
        elif known < priority:
            del self._used[known][block]
        else:
            priority = known
        self._class_of[block] = priority
        self._used[priority][block] = None
        self._used[priority].move_to_end(block)

    def _evict(self) -> None:
        """Evicts the least recently used leaf of the lowest class that has one."""
        block = next(block for used in self._used for block in used if not self._children.get(block))
        del self._used[self._class_of.pop(block)][block]
        parent = self._parent.pop(block)
        self._children[parent] -= 1
        if not self._children[parent]:
            del self._children[parent]
        if self._host_max:
            self._host[block] = None
            if len(self._host) > self._host_max:
                self._host.popitem(last=False)
