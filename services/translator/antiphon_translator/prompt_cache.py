"""Ids of what was encoded before: of a chat that grows turn by turn, only what is new is encoded.

A prompt is cut behind the control tokens that part it for good (separators.py), and the ids of its pieces, which are
mostly messages, are kept. Each is encoded on its own, which is also faster than all at once. The ids of the whole are
those that the tokenizer would give. How much is kept is bounded in
bytes; what was not used for longest goes first.

The pieces of all callers of a model are kept together, as engines keep the states of theirs. Nobody is ever shown what
was kept for another: a piece is found by whoever sends the very same text, under a digest with a key of this process.
But how long a prompt takes can tell that somebody sent a piece of it before; where even that is too much, an operator
keeps none (`prompt_cache_bytes`).
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from antiphon_translator.tokens import ModelTokenizer

ENTRY_BYTES = 256  # of a piece beside its ids: its digest, two objects, a place in a dictionary
_DIGEST_BYTES = 16
_ID = "I"  # 32 bits


class PieceCache:
    """Ids by digest, the most recently used last. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._ids: OrderedDict[bytes, array[int]] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def find(self, digests: Sequence[bytes]) -> list[array[int] | None]:
        """The ids that are kept under each."""
        with self._lock:
            found = [self._ids.get(digest) for digest in digests]
            for digest, ids in zip(digests, found, strict=True):
                if ids is not None:
                    self._ids.move_to_end(digest)
        return found

    def keep(self, digest: bytes, ids: Sequence[int]) -> None:
        """Keeps one more, and lets go of as many as it needs the place of."""
        kept = array(_ID, ids)
        if _size(kept) > self._most_bytes:
            return
        with self._lock:
            if digest in self._ids:
                return
            self._ids[digest] = kept
            self.bytes += _size(kept)
            while self.bytes > self._most_bytes:
                _, oldest = self._ids.popitem(last=False)
                self.bytes -= _size(oldest)


def _size(ids: array[int]) -> int:
    return ENTRY_BYTES + ids.itemsize * len(ids)


class CachingEncoder:
    """A model's tokenizer, and what it has encoded. `most_bytes` bounds what is kept; 0: nothing is."""

    def __init__(self, tokenizer: ModelTokenizer, *, most_bytes: int) -> None:
        self._tokenizer = tokenizer
        self._separators: frozenset[str] = tokenizer.separators if most_bytes > 0 else frozenset()
        self._cache = PieceCache(most_bytes)
        self._key = os.urandom(_DIGEST_BYTES)

    def encode(self, text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
        """The ids of a text, in which control tokens stand at `spans`."""
        pieces = self._cut(text, spans)
        if len(pieces) < 2:
            return self._tokenizer.encode(text)
        digests = [self._digest(piece) for piece in pieces]
        ids: list[int] = []
        for piece, digest, found in zip(pieces, digests, self._cache.find(digests), strict=True):
            ids += self._encoded(piece, digest) if found is None else found
        return ids

    def _encoded(self, piece: str, digest: bytes) -> list[int]:
        """The ids of a piece, which are kept from now on."""
        ids = self._tokenizer.encode(piece)
        self._cache.keep(digest, ids)
        return ids

    def _digest(self, piece: str) -> bytes:
        return hashlib.blake2b(piece.encode(), digest_size=_DIGEST_BYTES, key=self._key).digest()

    def _cut(self, text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
        ends = [end for begin, end in spans if text[begin:end] in self._separators]
        pieces = [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True)]
        return pieces if pieces[-1] else pieces[:-1]
