"""A prefix cache of encoded prompts, so that only the new part of a growing chat is encoded.

A prompt can be cut behind certain control tokens, the separators (separators.py): the ids of the prompt are those of
its parts, joined. The cache is a tree. A node stands for the beginning of a text up to a separator, is found by the
digest of that beginning, and has the ids that its parent lacks. A prompt is looked up from its end; only the text
behind the longest known beginning is encoded. Nodes are made for the last few separators only. The next prompt of the
same chat goes on behind one of them, because templates write the end of a prompt differently once it is history. The
node at the end of a prompt remembers the ids that the model wrote behind it; the next prompt takes them over where it
has their text (splices.py).

The system message comes first and may change with every turn, so it is encoded apart from the text behind it. The size
of the cache is bounded in bytes, and the least recently used nodes are evicted first.

All callers of a model share one cache, like the prefix cache of an engine. It returns ids only for the very same text,
under a digest with a key of this process, so no caller can read the text of another. But the time that a prompt takes
can reveal that its beginning was sent before. An operator for whom that is too much isolates the tenants of the model
(models/tenant_isolation.py) or disables the cache (`prompt_cache_bytes`).
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise

from tokenizers import Encoding

from antiphon_core import offload
from antiphon_translator.lineage.turn_lineage import ID, Written
from antiphon_translator.prompt.prefix_cache import ROOT, Found, Output, PrefixCache
from antiphon_translator.prompt.splices import Splice, Splicer
from antiphon_translator.templates.control_tokens import ControlTokens, Span
from antiphon_translator.tokenizer.tokens import ModelTokenizer

NODES_MAX = 4  # the nodes that one text adds
BLOCK_CHARS = 4_096  # the least size of most parts: the library encodes several parts in parallel
GROUP_CHARS = 256 * 2**10  # encoded between two checks of whether the request still waits: a tenth of a second
_LOOKED_AT_CHARS = (4_096, 65_536)  # how much of a text's end is searched first: turns seldom add more
_DIGEST_BYTES = 16
PIECE_IDS = 8_192  # a quarter of a millisecond


class UnspeltControlToken(Exception):
    """The tokenizer made a control token of text that does not spell one."""


@dataclass(frozen=True, slots=True)
class PromptEnd:
    """The end of an encoded prompt: the node at its last separator, and the text behind that."""

    node: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Encoded:
    """The number of tokens in some texts, and their ids. `ids` is empty if there are more than the limit. `is_floor`:
    `tokens` is a lower bound, because encoding stopped at the limit. `end` is None where the cache has no node to
    remember an output by. `spliced` is the number of ids that were taken from outputs."""

    tokens: int
    ids: Sequence[int] = ()
    is_floor: bool = False
    end: PromptEnd | None = None
    spliced: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan for encoding a text. Its beginning has the `known` ids, those of the node `base`. The text behind it is
    in `parts`, as text to encode or as the ids of a splice; `ends` are the places where they end. It spells
    `control_tokens`. Nodes are made at the ends with a digest in `kept`; `end` is the last of them."""

    known: array[int]
    base: bytes
    parts: Sequence[str | array[int]]
    splice_tokens: int
    """The number of ids of splices."""
    ends: Sequence[int]
    control_tokens: int
    kept: Mapping[int, bytes]
    end: PromptEnd

    def ids(self, encodings: Iterator[Encoding]) -> list[array[int]]:
        """The ids of each part, of which the encodings are those of the texts."""
        return [_pack_ids(next(encodings).ids) if isinstance(part, str) else part for part in self.parts]


class CachingEncoder:
    """A model's tokenizer with a prefix cache of at most `most_bytes`; 0 disables the cache."""

    def __init__(self, tokenizer: ModelTokenizer, control: ControlTokens, *, most_bytes: int) -> None:
        self._tokenizer = tokenizer
        self._control = control
        self._separators: frozenset[str] = tokenizer.separators if most_bytes > 0 else frozenset()
        self._splicer = Splicer(tokenizer, control)
        self._cache = PrefixCache(most_bytes)
        self._key = os.urandom(_DIGEST_BYTES)

    def encode(
        self,
        texts: Sequence[str],
        *,
        apart: int = 0,
        most_tokens: int | None = None,
        outputs: Sequence[Written] = (),
        salt: str = "",
    ) -> Encoded:
        """The ids of consecutive texts. The first `apart` characters of the first text, up to the next separator, are
        encoded and cached apart from the rest. Encoding stops when there are more than `most_tokens`. `outputs` are
        those of earlier turns, in their order, whose ids the texts get where they have their text. Texts of two salts
        share nothing in the cache.

        UnspeltControlToken: a text becomes a control token that it does not spell. WorkAbandoned: the request no longer
        waits for the result."""
        key = blake2b(salt.encode(), digest_size=_DIGEST_BYTES, key=self._key).digest()
        plans = [self._plan(text, key, written) for text, written in _assign(self._split(texts, apart), outputs)]
        parts = [part for plan in plans for part in plan.parts if isinstance(part, str)]
        most = sys.maxsize if most_tokens is None else most_tokens
        tokens, found = sum(len(plan.known) + plan.splice_tokens for plan in plans), list[Encoding]()
        for group in _groups(parts):
            offload.require_wanted()
            found += self._tokenizer.encode_all(group)
            tokens += sum(map(len, found[-len(group) :]))
            if tokens > most:
                break
        if tokens > most:
            return Encoded(tokens, is_floor=len(found) < len(parts))
        ids, encodings = array(ID), iter(found)
        for plan in plans:
            added = plan.ids(encodings)
            self._require_spelt(plan, added)
            self._keep(plan, added)
            for more in (plan.known, *added):
                ids.extend(more)
        end = plans[-1].end
        spliced = sum(plan.splice_tokens for plan in plans)
        return Encoded(tokens, ids, end=end if end.node != ROOT else None, spliced=spliced)

    def remember(self, end: PromptEnd, ids: Sequence[int]) -> None:
        """Keeps the ids that a model wrote behind a prompt. A later prompt that has their text gets these ids, so that
        it extends what the engine has in its KV cache (splices.py)."""
        self._cache.keep_output(end.node, Output(end.text, self._tokenizer.known_ids(ids)))

    def _split(self, texts: Sequence[str], apart: int) -> Sequence[str]:
        first = texts[0]
        end = next(iter(self._places(first, self._control.spans(first, apart))), 0) if apart else 0
        return [first[:end], first[end:], *texts[1:]] if end else texts

    def _plan(self, text: str, key: bytes, written: Sequence[Written]) -> _Plan:
        """Finds the longest known beginning of a text, by searching from the end of the text. A beginning whose ids are
        not those that were `written` is none. `key` is that of digests."""
        for start in self._starts(text):
            spans = list(self._control.spans(text, start))
            places = self._places(text, spans)
            digests = _digests(text, places, key)
            found = self._cache.find(digests[::-1])
            if found is None:
                continue
            last = len(places) - 1 - found.number
            place = places[last]
            has_ids = bool(written or found.outputs)
            splices = self._splices_behind(place, found, text, spans, written) if has_ids else []
            if splices is None:
                break
            new = dict(zip(places[last + 1 :], digests[last + 1 :], strict=True))
            return _plan_text(text, found.ids, digests[last], place, new, spans, splices)
        return self._plan_anew(text, key, written)

    def _plan_anew(self, text: str, key: bytes, written: Sequence[Written]) -> _Plan:
        """Plans a text without cached ids."""
        spans = list(self._control.spans(text))
        places = self._places(text, spans)
        new = dict(zip(places, _digests(text, places, key), strict=True))
        splices = self._fit_all(text, spans, written, []) if written else []
        return _plan_text(text, array(ID), ROOT, 0, new, spans, splices)

    def _splices_behind(
        self, place: int, found: Found, text: str, spans: Sequence[Span], written: Sequence[Written]
    ) -> list[Splice] | None:
        """The splices behind a known beginning that ends at `place`. None as in `_rest_behind`."""
        splices = self._rest_behind(place, found.ids, text, written)
        if splices is None:
            return None
        behind = [each for each in written if each.start >= place]
        splices = splices or list(self._fit_remembered(text, spans, place, found.outputs, behind))
        return self._fit_all(text, spans, behind, splices)

    def _rest_behind(self, place: int, known: array[int], text: str, written: Sequence[Written]) -> list[Splice] | None:
        """The splices behind `place` of outputs that begin before it. None: the `known` ids up to `place` are not those
        that were written, as far as the outputs agree with the text."""
        packed, at, rest = known.tobytes(), 0, list[Splice]()
        for each in written:
            if each.start >= place:
                break
            found = packed.find(each.ids.tobytes(), at)
            if found >= 0:
                at = found + len(each.ids) * known.itemsize
                continue
            for splice in self._splicer.fit(text, list(self._control.spans(text, each.start)), each):
                if splice.begin >= place:
                    rest.append(splice)
                elif (at := packed.find(splice.ids.tobytes(), at)) < 0:
                    return None
        return rest

    def _fit_remembered(
        self, text: str, spans: Sequence[Span], place: int, outputs: Iterable[Output], written: Sequence[Written]
    ) -> Sequence[Splice]:
        """The splices of the output that agrees with most of the text behind `place`, of those remembered there. None,
        if one of the outputs that were `written` begins there."""
        starts = {each.start for each in written}
        found = [
            self._splicer.fit(text, spans, Written(start, output.ids))
            for output in outputs
            if text.startswith(output.lead, place) and (start := place + len(output.lead)) not in starts
        ]
        return max(found, key=_end_of, default=())

    def _fit_all(
        self, text: str, spans: Sequence[Span], written: Iterable[Written], splices: list[Splice]
    ) -> list[Splice]:
        """These splices and those of outputs, of which none begins within another."""
        for each in written:
            if each.start >= _end_of(splices):
                splices += self._splicer.fit(text, spans, each)
        return splices

    def _starts(self, text: str) -> Sequence[int]:
        """The positions to search from, one after the other, until a cached beginning is found. Any position will do,
        because a separator is one wherever it stands."""
        if not self._separators:
            return (0,)
        return (*[len(text) - chars for chars in _LOOKED_AT_CHARS if chars < len(text)], 0)

    def _places(self, text: str, spans: Iterable[Span]) -> list[int]:
        """The positions behind those control tokens that are separators."""
        return [end for begin, end in spans if text[begin:end] in self._separators]

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
        parent, ids = plan.base, array(ID)
        for end, more in zip(plan.ends, added, strict=True):
            ids.extend(more)
            if end in plan.kept:
                self._cache.keep(plan.kept[end], parent, ids)
                parent, ids = plan.kept[end], array(ID)


def _digests(text: str, places: Sequence[int], key: bytes) -> list[bytes]:
    """The digest of the text up to each of the places."""
    digest = blake2b(digest_size=_DIGEST_BYTES, key=key)
    digests: list[bytes] = []
    for begin, end in pairwise((0, *places)):
        digest.update(text[begin:end].encode())
        digests.append(digest.digest())
    return digests


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
    packed = array(ID)
    for piece in _pieces(ids):
        packed.extend(piece)
    return packed


def _pieces(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    """Splits ids for calls that hold the GIL until they return, so that other threads run in between."""
    if len(ids) <= PIECE_IDS:
        return (ids,)
    return (ids[start : start + PIECE_IDS] for start in range(0, len(ids), PIECE_IDS))


def _assign(texts: Sequence[str], outputs: Sequence[Written]) -> Iterator[tuple[str, Sequence[Written]]]:
    """Each of consecutive texts with the outputs that begin in it, by their places in that text."""
    begin = 0
    for text in texts:
        end = begin + len(text)
        yield text, [replace(each, start=each.start - begin) for each in outputs if begin <= each.start < end]
        begin = end


def _end_of(splices: Sequence[Splice]) -> int:
    return splices[-1].end if splices else 0


def _plan_text(
    text: str,
    known: array[int],
    base: bytes,
    start: int,
    digests: Mapping[int, bytes],
    spans: Sequence[Span],
    splices: Sequence[Splice],
) -> _Plan:
    """The plan of a text that is known up to `start`. `digests` are those of the separators behind `start`; `spans` are
    those of control tokens from there on, at least. No cut is within a splice: those end at control tokens."""
    places = list(digests)
    kept = {place: digests[place] for place in places[-NODES_MAX:]}
    cuts = [start]
    for place in places[:-NODES_MAX]:
        if place - cuts[-1] >= BLOCK_CHARS:
            cuts.append(place)
    spliced = {splice.begin: splice for splice in splices}
    bounds = sorted({*cuts, *kept, *spliced, *(splice.end for splice in splices), len(text)})
    parts = [spliced[begin].ids if begin in spliced else text[begin:end] for begin, end in pairwise(bounds)]
    control_tokens = len(spans) - bisect_left(spans, (start, 0))
    last = places[-1] if places else start
    end = PromptEnd(digests[last] if places else base, text[last:])
    splice_tokens = sum(len(splice.ids) for splice in splices) if splices else 0
    return _Plan(known, base, parts, splice_tokens, bounds[1:], control_tokens, kept, end)
