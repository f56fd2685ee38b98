"""A cache of histories that were read for earlier turns, so that only the new items of a growing chat are read.

The store sends the whole history with each turn, and its content is authoritative: a response that was deleted or
changed is missing in it, or has other bytes. So the cache looks histories up by their bytes alone. A cached history is
used if the new one begins with exactly its bytes; the rest is then parsed as a JSON array of its own.

The size of the cache is bounded in bytes, and the least recently used chat is evicted first. Of one chat, the longest
history and some forks are kept. Chats are told apart by their first bytes, which contain the id of their first item. A
history is not cached if its reading depends on more than its bytes: images and files are counted and fetched for each
turn, and a call that was cut off counts only if the rest of the chat has a result of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from antiphon_translator.conversation import NO_MESSAGES, KnownMessages
from antiphon_translator.prompt.rounds import NO_ROUNDS, RoundsState
from antiphon_translator.schemas.schema_budget import NO_COST, SchemaCost

MESSAGE_BYTES = 1_024  # of a message beside its texts: its tuple, and the forms in which templates and servers want it
TEXT_COPIES = 2  # the JSON itself, and the texts in its messages
FORKS_MAX = 4  # histories kept of one chat
_KEY_BYTES = 96


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """A history that was read to its end. `text` is its JSON array without the closing bracket."""

    text: bytes = b""
    items: int = 0
    declared: Sequence[Any] = ()
    """The tools that its items declare."""
    schema_cost: SchemaCost = NO_COST
    """The cost of the schemas of these tools, which each turn's budget is charged with."""
    messages: KnownMessages = NO_MESSAGES
    rounds: RoundsState = NO_ROUNDS
    """The state of the last round, on which the order of the next messages depends."""
    answered: frozenset[str] = frozenset()
    """The ids of the calls that have results."""

    @property
    def size(self) -> int:
        return TEXT_COPIES * len(self.text) + MESSAGE_BYTES * len(self.messages.messages)

    def begins(self, history: bytes) -> bool:
        """Whether a JSON array begins with these items."""
        end = len(self.text)
        return history.startswith(self.text) and history[end : end + 1] in (b",", b"]")

    def rest(self, history: bytes) -> bytes:
        """The items of a history behind these items, as a JSON array."""
        if not self.text:
            return history
        behind = history[len(self.text) :]
        return b"[" + behind[1:] if behind.startswith(b",") else b"[]"


NOTHING_READ = ReadHistory()


class HistoryCache:
    """The cached histories of one model. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes` is the size limit; 0 disables the cache."""
        self._most_bytes = most_bytes
        self._chats: OrderedDict[bytes, list[ReadHistory]] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def find(self, history: bytes) -> ReadHistory:
        """The longest cached beginning of a history; NOTHING_READ if none is cached."""
        key = history[:_KEY_BYTES]
        with self._lock:
            forks = self._chats.get(key, ())
            known = [each for each in forks if each.begins(history)]
            if known:
                self._chats.move_to_end(key)
        return max(known, key=lambda each: each.items, default=NOTHING_READ)

    def keep(self, read: ReadHistory) -> None:
        """Caches a history in place of its beginnings, and evicts chats while the cache is over its limit."""
        if read.size > self._most_bytes:
            return
        key = read.text[:_KEY_BYTES]
        with self._lock:
            former = self._chats.pop(key, [])
            others = [each for each in former if not each.begins(read.text + b"]")]
            self._chats[key] = [*others[1 - FORKS_MAX :], read]
            self.bytes += sum(each.size for each in self._chats[key]) - sum(each.size for each in former)
            while self.bytes > self._most_bytes:
                self.bytes -= sum(each.size for each in self._chats.popitem(last=False)[1])
