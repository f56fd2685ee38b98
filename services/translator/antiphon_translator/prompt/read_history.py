"""Histories as they were read for earlier turns: of a chat that grows, only the items that are new are read.

The store hands out the history of each turn anew, and what it says holds: a response that was deleted or changed
is not in it, or is in it with other bytes. So a history is found here by its bytes alone. One that was read before
counts if the new one begins with exactly its items, byte by byte; then the rest is a JSON array of its own.

What is kept is bounded in bytes; the chat that was not continued for longest goes first. Of one chat the longest
history is kept, and some of its forks. Chats are told apart by their first bytes, which hold the id of their first
item. Not kept is a history whose reading depends on more than its bytes: with images or files in it, which are counted
and fetched by turn, or with a call that was cut off, which counts if the rest of the chat has a result of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from antiphon_translator.conversation import NO_MESSAGES, Call, KnownMessages, Message

MESSAGE_BYTES = 1_024  # of a message beside its texts: its tuple, and the forms in which templates and servers want it
TEXT_COPIES = 2  # the JSON itself, and the texts in its messages
FORKS_MAX = 4  # histories kept of one chat
_KEY_BYTES = 96


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """A history that was read up to its last item. `text` is its JSON without the closing bracket."""

    text: bytes = b""
    items: int = 0
    declared: Sequence[Any] = ()
    """The tools that its items declare."""
    messages: KnownMessages = NO_MESSAGES
    open: Message | None = None
    """The part of a history that the assistant may still add to."""
    called: Mapping[str, Call] = field(default_factory=dict)
    """Calls by id."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """The paths of those without a result, by id."""
    answered: frozenset[str] = frozenset()
    """The ids that have results."""

    @property
    def size(self) -> int:
        return TEXT_COPIES * len(self.text) + MESSAGE_BYTES * len(self.messages.messages)

    def begins(self, history: bytes) -> bool:
        """Whether a JSON array has these items first."""
        end = len(self.text)
        return history.startswith(self.text) and history[end : end + 1] in (b",", b"]")

    def rest(self, history: bytes) -> bytes:
        """The items behind these, as a JSON array."""
        if not self.text:
            return history
        behind = history[len(self.text) :]
        return b"[" + behind[1:] if behind.startswith(b",") else b"[]"


NOTHING_READ = ReadHistory()


class HistoryCache:
    """Histories that were read before, of all callers of one model. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        """0: nothing is kept."""
        self._most_bytes = most_bytes
        self._chats: OrderedDict[bytes, list[ReadHistory]] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def find(self, history: bytes) -> ReadHistory:
        """The longest beginning of a history that was read before; NOTHING_READ."""
        key = history[:_KEY_BYTES]
        with self._lock:
            forks = self._chats.get(key, ())
            known = [each for each in forks if each.begins(history)]
            if known:
                self._chats.move_to_end(key)
        return max(known, key=lambda each: each.items, default=NOTHING_READ)

    def keep(self, read: ReadHistory) -> None:
        """Keeps one more instead of its beginnings, and lets go of as many chats as it needs the place of."""
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
