"""Ids of what was encoded before: of a chat that grows turn by turn, only what is new is encoded.

A prompt can be cut behind the control tokens that part it for good (separators.py); the ids of the whole are those of
its parts. What is kept is a tree: a node stands for the beginning of a text up to such a place, is found by the digest
of that beginning, and has the ids that its parent has not. So a prompt is looked up as one text, from its end: behind
the longest beginning that is known, the rest is encoded. Nodes are made of the last few places only, where the next
prompt of the same chat goes on: templates write the end of a prompt in another way once it is history.

What the system says comes first and may change with every turn, so it is encoded apart from what is behind it. How much
is kept is bounded in bytes; what was not used for longest goes first.

The ids of all callers of a model are kept together, as engines keep the states of theirs. Nobody is ever shown what was
kept for another: a beginning is found by whoever sends the very same text, under a digest with a key of this process.
But how long a prompt takes can tell that somebody sent its beginning before; where even that is too much, an operator
keeps none (`prompt_cache_bytes`).
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

from tokenizers import Encoding

from antiphon_core import offload
from antiphon_core.telemetry import metrics
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.tokenizer.tokens import ModelTokenizer

NODE_BYTES = 320  # of a node beside its ids: two digests, three objects, a place in a dictionary
NODES_MAX = 4  # made of one text
BLOCK_CHARS = 4_096  # of what is encoded at once, or a little more: the library encodes several side by side
GROUP_CHARS = 256 * 2**10  # encoded between two looks at whether the rest is wanted: a tenth of a second
_LOOKED_AT_CHARS = (4_096, 65_536)  # so much of a text's end is looked at first: turns seldom add more
_DIGEST_BYTES = 16
PIECE_IDS = 8_192  # a quarter of a millisecond
_ROOT = b""
_ID = "i"  # 32 bits, as engines are sent them


class UnspeltControlToken(Exception):
    """A text becomes a control token that nobody wrote."""


@dataclass(frozen=True, slots=True)
class _Node:
    """The ids between the end of its parent and its own."""

    parent: bytes
    ids: array[int]

    @property
    def size(self) -> int:
        return NODE_BYTES + self.ids.itemsize * len(self.ids)


class PrefixCache:
    """Ids of beginnings of texts, by digest, the most recently used last. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._nodes: OrderedDict[bytes, _Node] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def find(self, digests: Sequence[bytes]) -> tuple[int, array[int]] | None:
        """Which of these is the first that is known, with everything before it, and all ids up to its end."""
        with self._lock:
            for number, digest in enumerate(digests):
                line = self._line(digest)
                if line is not None:
                    return number, _joined(reversed(line))
        return None

    def keep(self, digest: bytes, parent: bytes, ids: Sequence[int]) -> None:
        """Keeps one more, and lets go of as many as it needs the place of."""
        node = _Node(parent, array(_ID, ids))
        if node.size > self._most_bytes:
            return
        with self._lock:
            before = self._nodes.pop(digest, None)
            self._nodes[digest] = node
            self.bytes += node.size - (before.size if before is not None else 0)
            while self.bytes > self._most_bytes:
                self.bytes -= self._nodes.popitem(last=False)[1].size
                metrics.PROMPT_CACHE_EVICTIONS.of().add()

    def _line(self, digest: bytes) -> list[_Node] | None:
        """A node and all before it, the first one last; None if one of them is gone. A parent stays longer than its
        children: it is used after them."""
        line: list[_Node] = []
        while digest != _ROOT:
            node = self._nodes.get(digest)
            if node is None:
                return None
            self._nodes.move_to_end(digest)
            line.append(node)
            digest = node.parent
        return line


def _joined(nodes: Iterator[_Node]) -> array[int]:
    ids = array(_ID)
    for node in nodes:
        ids.extend(node.ids)
    return ids


@dataclass(frozen=True, slots=True)
class Encoded:
    """How many tokens some texts are, and which; `ids` is empty where there are more than were wanted. `is_floor`: not
    all was counted, because that much is too much already."""

    tokens: int
    ids: Sequence[int] = ()
    is_floor: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a text is encoded. Up to the first of `cuts` its ids are `known`, as those of the node `base`; between the
    others they are to be found out, and to be kept at the cuts that have a digest in `kept`."""

    text: str
    known: array[int]
    base: bytes
    cuts: Sequence[int]
    kept: Mapping[int, bytes]

    @property
    def parts(self) -> list[str]:
        return [self.text[begin:end] for begin, end in pairwise((*self.cuts, len(self.text)))]


class CachingEncoder:
    """A model's tokenizer, and what it has encoded. `most_bytes` bounds what is kept; 0: nothing is."""

    def __init__(self, tokenizer: ModelTokenizer, control: ControlTokens, *, most_bytes: int) -> None:
        self._tokenizer = tokenizer
        self._control = control
        self._separators: frozenset[str] = tokenizer.separators if most_bytes > 0 else frozenset()
        self._cache = PrefixCache(most_bytes)
        self._key = os.urandom(_DIGEST_BYTES)

    def encode(self, texts: Sequence[str], *, apart: int = 0, most_tokens: int | None = None) -> Encoded:
        """The ids of texts, which stand side by side. The first `apart` characters of the first one are looked up by
        themselves, up to the next place where it can be cut. `most_tokens`: encoding ends where there are more.

        UnspeltControlToken: a text becomes a control token that it does not spell. WorkAbandoned: nobody waits for it
        any more."""
        plans = [self._plan(text) for text in self._parted(texts, apart)]
        parts = [part for plan in plans for part in plan.parts]
        tokens, encodings_found = sum(len(plan.known) for plan in plans), list[Encoding]()
        for group in _groups(parts):
            offload.require_wanted()
            encodings_found += self._tokenizer.encode_all(group)
            tokens += sum(map(len, encodings_found[-len(group) :]))
            if most_tokens is not None and tokens > most_tokens:
                return Encoded(tokens, is_floor=len(encodings_found) < len(parts))
        found = iter(encodings_found)
        new = [[next(found) for _ in plan.parts] for plan in plans]
        ids = array(_ID)
        for plan, encodings in zip(plans, new, strict=True):
            added = [_packed(encoding.ids) for encoding in encodings]
            self._require_spelt(plan, added)
            self._keep(plan, added)
            for more in (plan.known, *added):
                ids.extend(more)
        return Encoded(tokens, ids)

    def _parted(self, texts: Sequence[str], apart: int) -> Sequence[str]:
        first = texts[0]
        end = next(iter(self._places(first, apart)), 0) if apart else 0
        return [first[:end], first[end:], *texts[1:]] if end else texts

    def _plan(self, text: str) -> _Plan:
        """Finds the longest known beginning of a text, by searching from the end of the text."""
        places: list[int] = []
        digests: Sequence[bytes] = ()
        for start in self._starts(text):
            places = list(self._places(text, start))
            digests = self._digests(text, places)
            found = self._cache.find(digests[::-1])
            if found is not None:
                last = len(places) - 1 - found[0]
                new = dict(zip(places[last + 1 :], digests[last + 1 :], strict=True))
                return _planned(text, found[1], digests[last], places[last], new)
        return _planned(text, array(_ID), _ROOT, 0, dict(zip(places, digests, strict=True)))

    def _starts(self, text: str) -> Iterator[int]:
        """From where to look, until something is found. Where a search begins does not matter: a separator is one
        wherever it is spelt."""
        if self._separators:
            yield from (len(text) - chars for chars in _LOOKED_AT_CHARS if chars < len(text))
            yield 0

    def _places(self, text: str, start: int) -> Iterator[int]:
        """Where a text can be cut."""
        return (end for begin, end in self._control.spans(text, start) if text[begin:end] in self._separators)

    def _digests(self, text: str, places: Sequence[int]) -> list[bytes]:
        """Of everything up to each of the places."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=self._key)
        digests: list[bytes] = []
        for begin, end in pairwise((0, *places)):
            digest.update(text[begin:end].encode())
            digests.append(digest.digest())
        return digests

    def _require_spelt(self, plan: _Plan, added: Sequence[array[int]]) -> None:
        """A tokenizer that normalises its text can make a control token of something that does not look like one."""
        spelt = sum(1 for _ in self._control.spans(plan.text, plan.cuts[0]))
        is_control = self._control.ids.__contains__
        if sum(sum(map(is_control, piece)) for ids in added for piece in _pieces(ids)) > spelt:
            raise UnspeltControlToken

    def _keep(self, plan: _Plan, added: Sequence[array[int]]) -> None:
        parent, ids = plan.base, array(_ID)
        for end, more in zip(plan.cuts[1:], added, strict=False):  # behind the last cut nothing is kept
            ids.extend(more)
            if end in plan.kept:
                self._cache.keep(plan.kept[end], parent, ids)
                parent, ids = plan.kept[end], array(_ID)


def _groups(parts: Sequence[str]) -> Iterator[list[str]]:
    """Parts in groups of about GROUP_CHARS. There is one at least."""
    group, chars = list[str](), 0
    for part in parts:
        group.append(part)
        chars += len(part)
        if chars >= GROUP_CHARS:
            yield group
            group, chars = [], 0
    if group:
        yield group


def _packed(ids: Sequence[int]) -> array[int]:
    """Ids in four bytes each, where a list needs nine times as much."""
    packed = array(_ID)
    for piece in _pieces(ids):
        packed.extend(piece)
    return packed


def _pieces(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Ids in pieces for calls that hold the GIL until they return: other threads run between two of them."""
    return (ids[start : start + PIECE_IDS] for start in range(0, len(ids), PIECE_IDS))


def _planned(text: str, known: array[int], base: bytes, start: int, digests: Mapping[int, bytes]) -> _Plan:
    """`digests` are those of the places behind `start`."""
    places = list(digests)
    kept = places[-NODES_MAX:]
    cuts = [start]
    cuts += (place for place in places[:-NODES_MAX] if place - cuts[-1] >= BLOCK_CHARS)
    return _Plan(text, known, base, [*cuts, *kept], {place: digests[place] for place in kept})
