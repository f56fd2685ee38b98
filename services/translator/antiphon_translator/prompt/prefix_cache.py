"""The tree of encoded beginnings of texts: each node has the ids that its parent lacks.

A node is found by the digest of its text. It also keeps the last few outputs that models wrote behind that text, so
that the next prompt can take over their ids. The size of the tree is bounded in bytes, and the least recently used
nodes are evicted first, with their outputs.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from antiphon_core.telemetry import metrics
from antiphon_translator.lineage.turn_lineage import ID

NODE_BYTES = 320  # the overhead of a node besides its ids: two digests, three objects, an entry in a dictionary
OUTPUT_BYTES = 240  # the overhead of an output besides its ids and its text: three objects
OUTPUTS_MAX = 4  # the outputs of a node: a prompt that is sent again, for another answer, has several
ROOT = b""


@dataclass(frozen=True, slots=True)
class Output:
    """An output that a model wrote: the rest of its prompt behind a node, and the ids behind that."""

    lead: str
    ids: array[int]

    @property
    def size(self) -> int:
        return OUTPUT_BYTES + len(self.lead.encode()) + self.ids.itemsize * len(self.ids)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the tree: the ids from the end of its parent's text to the end of its own."""

    parent: bytes
    ids: array[int]
    outputs: tuple[Output, ...] = ()

    @property
    def size(self) -> int:
        return NODE_BYTES + self.ids.itemsize * len(self.ids) + sum(output.size for output in self.outputs)


@dataclass(frozen=True, slots=True)
class Found:
    """A cached beginning: the index of its digest among those that were looked for, all of its ids, and the outputs
    that were written behind it."""

    number: int
    ids: array[int]
    outputs: Sequence[Output]


class PrefixCache:
    """The nodes by the digests of their texts, the most recently used last. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._nodes: OrderedDict[bytes, _Node] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def find(self, digests: Sequence[bytes]) -> Found | None:
        """The beginning of the first of these digests whose node and ancestors are cached."""
        with self._lock:
            for number, digest in enumerate(digests):
                nodes = self._path(digest)
                if nodes is not None:
                    return Found(number, _join_ids(reversed(nodes)), nodes[0].outputs)
        return None

    def keep(self, digest: bytes, parent: bytes, ids: Sequence[int]) -> None:
        """Adds a node, and evicts nodes while the cache is over its limit."""
        with self._lock:
            before = self._nodes.get(digest)
            self._put(digest, _Node(parent, array(ID, ids), before.outputs if before is not None else ()))

    def keep_output(self, digest: bytes, output: Output) -> None:
        """Adds an output to a node, in place of the oldest one that the node has too many. Without the node it is not
        kept."""
        with self._lock:
            node = self._nodes.get(digest)
            if node is not None:
                others = [other for other in node.outputs if other != output]
                self._put(digest, replace(node, outputs=(*others, output)[-OUTPUTS_MAX:]))

    def _put(self, digest: bytes, node: _Node) -> None:
        size = node.size
        if size > self._most_bytes:
            return
        before = self._nodes.pop(digest, None)
        self._nodes[digest] = node
        self.bytes += size - (before.size if before is not None else 0)
        while self.bytes > self._most_bytes:
            self.bytes -= self._nodes.popitem(last=False)[1].size
            metrics.PROMPT_CACHE_EVICTIONS.of().add()

    def _path(self, digest: bytes) -> list[_Node] | None:
        """A node and its ancestors up to the root; None if one of them was evicted. Parents are marked as used after
        their children, so that they are evicted later."""
        nodes: list[_Node] = []
        while digest != ROOT:
            node = self._nodes.get(digest)
            if node is None:
                return None
            self._nodes.move_to_end(digest)
            nodes.append(node)
            digest = node.parent
        return nodes


def _join_ids(nodes: Iterator[_Node]) -> array[int]:
    ids = array(ID)
    for node in nodes:
        ids.extend(node.ids)
    return ids
