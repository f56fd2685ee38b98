"""How many tokens of a model's KV cache each tenant has asked to retain.

Without a share, one tenant with a lifetime in every request would push all others out of the cache. A line of turns
counts once, with its longest prompt: each prompt repeats the ones before. The shares are those of one process.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

LINES_ITEMS_MAX = 4_096
"""Lines of turns of all tenants. The oldest are forgotten, and their tokens with them."""


@dataclass(frozen=True, slots=True)
class _Line:
    tenant: str
    tokens: int
    until_s: float


class RetainedShares:
    """The shares of one model. Safe to use from several threads."""

    def __init__(self, tokens_per_tenant: int, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._most = tokens_per_tenant
        self._now_s = monotonic_s
        self._lines: OrderedDict[tuple[str, str], _Line] = OrderedDict()
        self._lock = Lock()

    def take(self, tenant: str, line: str, tokens: int, seconds: int) -> bool:
        """Counts the prompt of a line of turns. Returns False, and counts nothing, if the tenant's share is too small
        for it."""
        if tokens > self._most:
            return False
        with self._lock:
            now_s = self._now_s()
            self._forget(now_s)
            before = self._lines.get((tenant, line))
            others = sum(each.tokens for each in self._lines.values() if each.tenant == tenant and each is not before)
            kept = _Line(tenant, tokens, now_s + seconds)
            if before is not None:
                kept = _Line(tenant, max(tokens, before.tokens), max(kept.until_s, before.until_s))
            if others + kept.tokens > self._most:
                return False
            self._lines[(tenant, line)] = kept
            self._lines.move_to_end((tenant, line))
            if len(self._lines) > LINES_ITEMS_MAX:
                self._lines.popitem(last=False)
            return True

    def _forget(self, now_s: float) -> None:
        for key in [key for key, line in self._lines.items() if line.until_s <= now_s]:
            del self._lines[key]

    def __len__(self) -> int:
        return len(self._lines)
