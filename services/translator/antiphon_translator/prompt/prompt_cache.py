"""A prefix cache of encoded prompts, so that only the new part of a growing chat is encoded.

A prompt can be cut behind certain control tokens, the separators (separators.py): the ids of the prompt are those of
its parts, joined. The cache is a tree. A node stands for the beginning of a text up to a separator, is found by the
digest of that beginning, and has the ids that its parent lacks. A prompt is looked up from its end; only the text
behind the longest known beginning is encoded. Nodes are made for the last few separators only. The next prompt of the
same chat goes on behind one of them, because templates write the end of a prompt differently once it is history.

The system message comes first and may change with every turn, so it is encoded apart from the text behind it. The size
of the cache is bounded in bytes, and the least recently used nodes are evicted first.

All callers of a model share one cache, like the prefix cache of an engine. It returns ids only for the very same text,
under a digest with a key of this process, so no caller can read the text of another. But the time that a prompt takes
can reveal that its beginning was sent before. An operator for whom that is too much disables the cache
(`prompt_cache_bytes`).
"""

from __future__ import annotations

import hashlib
import os
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from threading import Lock

from tokenizers import Encoding

from antiphon_core import offload
from antiphon_core.telemetry import metrics
from antiphon_translator.templates.control_tokens import ControlTokens
from antiphon_translator.tokenizer.tokens import ModelTokenizer

NODE_BYTES = 320  # the overhead of a node besides its ids: two digests, three objects, an entry in a dictionary
NODES_MAX = 4  # the nodes that one text adds
BLOCK_CHARS = 4_096  # the least size of most parts: the library encodes several parts in parallel
GROUP_CHARS = 256 * 2**10  # encoded between two checks of whether the request still waits: a tenth of a second
_LOOKED_AT_CHARS = (4_096, 65_536)  # how much of a text's end is searched first: turns seldom add more
_DIGEST_BYTES = 16
PIECE_IDS = 8_192  # a quarter of a millisecond
_ROOT = b""
_ID = "i"  # 32 bits, as engines are sent them

Span = tuple[int, int]


class UnspeltControlToken(Exception):
    """The tokenizer made a control token of text that does not spell one."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the tree: the ids from the end of its parent's text to the end of its own."""

    parent: bytes
    ids: array[int]

    @property
    def size(self) -> int:
        return NODE_BYTES + self.ids.itemsize * len(self.ids)


class PrefixCache:
    """The nodes by the digests of their texts, the most recently used last. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._nodes: OrderedDict[bytes, _Node] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def find(self, digests: Sequence[bytes]) -> tuple[int, array[int]] | None:
        """The index of the first of these digests whose node and ancestors are cached, and all ids up to its end."""
        with self._lock:
            for number, digest in enumerate(digests):
                nodes = self._path(digest)
                if nodes is not None:
                    return number, _join_ids(reversed(nodes))
        return None

    def keep(self, digest: bytes, parent: bytes, ids: Sequence[int]) -> None:
        """Adds a node, and evicts nodes while the cache is over its limit."""
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

    def _path(self, digest: bytes) -> list[_Node] | None:
        """A node and its ancestors up to the root; None if one of them was evicted. Parents are marked as used after
        their children, so that they are evicted later."""
        nodes: list[_Node] = []
        while digest != _ROOT:
            node = self._nodes.get(digest)
            if node is None:
                return None
            self._nodes.move_to_end(digest)
            nodes.append(node)
            digest = node.parent
        return nodes


def _join_ids(nodes: Iterator[_Node]) -> array[int]:
    ids = array(_ID)
    for node in nodes:
        ids.extend(node.ids)
    return ids


@dataclass(frozen=True, slots=True)
class Encoded:
    """The number of tokens in some texts, and their ids. `ids` is empty if there are more than the limit. `is_floor`:
    `tokens` is a lower bound, because encoding stopped at the limit."""

    tokens: int
    ids: Sequence[int] = ()
    is_floor: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan for encoding a text. Up to the first of `cuts` its ids are `known`: those of the node `base`. The text
    behind it is encoded in `parts`, which meet at the cuts, and spells `control_tokens`; nodes are made at the cuts
    with a digest in `kept`."""

    known: array[int]
    base: bytes
    parts: Sequence[str]
    cuts: Sequence[int]
    control_tokens: int
    kept: Mapping[int, bytes]


class CachingEncoder:
    """A model's tokenizer with a prefix cache of at most `most_bytes`; 0 disables the cache."""

    def __init__(self, tokenizer: ModelTokenizer, control: ControlTokens, *, most_bytes: int) -> None:
        self._tokenizer = tokenizer
        self._control = control
        self._separators: frozenset[str] = tokenizer.separators if most_bytes > 0 else frozenset()
        self._cache = PrefixCache(most_bytes)
        self._key = os.urandom(_DIGEST_BYTES)

    def encode(self, texts: Sequence[str], *, apart: int = 0, most_tokens: int | None = None) -> Encoded:
        """The ids of consecutive texts. The first `apart` characters of the first text, up to the next separator, are
        encoded and cached apart from the rest. Encoding stops when there are more than `most_tokens`.

        UnspeltControlToken: a text becomes a control token that it does not spell. WorkAbandoned: the request no longer
        waits for the result."""
        plans = [self._plan(text) for text in self._split(texts, apart)]
        parts = [part for plan in plans for part in plan.parts]
        tokens, found = sum([len(plan.known) for plan in plans]), list[Encoding]()
        for group in _groups(parts):
            offload.require_wanted()
            found += self._tokenizer.encode_all(group)
            tokens += sum(map(len, found[-len(group) :]))
            if most_tokens is not None and tokens > most_tokens:
                return Encoded(tokens, is_floor=len(found) < len(parts))
        ids, encodings = array(_ID), iter(found)
        for plan in plans:
            added = [_pack_ids(encoding.ids) for encoding in islice(encodings, len(plan.parts))]
            self._require_spelt(plan, added)
            self._keep(plan, added)
            for more in (plan.known, *added):
                ids.extend(more)
        return Encoded(tokens, ids)

    def _split(self, texts: Sequence[str], apart: int) -> Sequence[str]:
        first = texts[0]
        end = next(iter(self._places(first, self._control.spans(first, apart))), 0) if apart else 0
        return [first[:end], first[end:], *texts[1:]] if end else texts

    def _plan(self, text: str) -> _Plan:
        """Finds the longest known beginning of a text, by searching from the end of the text."""
        spans, places, digests = list[Span](), list[int](), list[bytes]()
        for start in self._starts(text):
            spans = list(self._control.spans(text, start))
            places = self._places(text, spans)
            digests = self._digests(text, places)
            found = self._cache.find(digests[::-1])
            if found is not None:
                last = len(places) - 1 - found[0]
                new = dict(zip(places[last + 1 :], digests[last + 1 :], strict=True))
                return _plan_text(text, found[1], digests[last], places[last], new, spans)
        return _plan_text(text, array(_ID), _ROOT, 0, dict(zip(places, digests, strict=True)), spans)

    def _starts(self, text: str) -> Sequence[int]:
        """The positions to search from, one after the other, until a cached beginning is found. Any position will do,
        because a separator is one wherever it stands."""
        if not self._separators:
            return (0,)
        return (*[len(text) - chars for chars in _LOOKED_AT_CHARS if chars < len(text)], 0)

    def _places(self, text: str, spans: Iterable[Span]) -> list[int]:
        """The positions behind those control tokens that are separators."""
        return [end for begin, end in spans if text[begin:end] in self._separators]

    def _digests(self, text: str, places: Sequence[int]) -> list[bytes]:
        """The digest of the text up to each of the places."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=self._key)
        digests: list[bytes] = []
        for begin, end in pairwise((0, *places)):
            digest.update(text[begin:end].encode())
            digests.append(digest.digest())
        return digests

    def _require_spelt(self, plan: _Plan, added: Sequence[array[int]]) -> None:
        """UnspeltControlToken: there are more control tokens than the text spells. A tokenizer that normalises text can
        make a control token of other text."""
        found, is_control = 0, self._control.ids.__contains__
        for ids in added:
            for piece in _pieces(ids):
                found += sum(map(is_control, piece))
        if found > plan.control_tokens:
            raise UnspeltControlToken

    def _keep(self, plan: _Plan, added: Sequence[array[int]]) -> None:
        parent, ids = plan.base, array(_ID)
        for end, more in zip(plan.cuts[1:], added, strict=False):  # behind the last cut nothing is kept
            ids.extend(more)
            if end in plan.kept:
                self._cache.keep(plan.kept[end], parent, ids)
                parent, ids = plan.kept[end], array(_ID)


def _groups(parts: Sequence[str]) -> Iterator[list[str]]:
    """Joins parts into groups of about GROUP_CHARS."""
    group, chars = list[str](), 0
    for part in parts:
        group.append(part)
        chars += len(part)
        if chars >= GROUP_CHARS:
            yield group
            group, chars = [], 0
    if group:
        yield group


def _pack_ids(ids: Sequence[int]) -> array[int]:
    """Ids as an array of four bytes each; a list takes nine times as much memory."""
    packed = array(_ID)
    for piece in _pieces(ids):
        packed.extend(piece)
    return packed


def _pieces(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    """Splits ids for calls that hold the GIL until they return, so that other threads run in between."""
    if len(ids) <= PIECE_IDS:
        return (ids,)
    return (ids[start : start + PIECE_IDS] for start in range(0, len(ids), PIECE_IDS))


def _plan_text(
    text: str, known: array[int], base: bytes, start: int, digests: Mapping[int, bytes], spans: Sequence[Span]
) -> _Plan:
    """The plan of a text that is known up to `start`. `digests` are those of the separators behind `start`; `spans` are
    those of control tokens from there on, at least."""
    places = list(digests)
    kept = places[-NODES_MAX:]
    cuts = [start]
    for place in places[:-NODES_MAX]:
        if place - cuts[-1] >= BLOCK_CHARS:
            cuts.append(place)
    cuts += kept
    parts = [text[begin:end] for begin, end in pairwise((*cuts, len(text)))]
    control_tokens = len(spans) - bisect_left(spans, (start, 0))
    return _Plan(known, base, parts, cuts, control_tokens, {place: digests[place] for place in kept})
