"""How many tokens of a model's KV cache each tenant has asked to retain.

Without a share, one tenant with a lifetime in every request would push all others out of the cache. A line of turns
counts what its prompts do not have in common with the one before, whatever the client names the line: a prompt that
repeats the ones before counts once, and unrelated prompts of one name count each. The shares are those of one process.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from threading import Lock

LINES_PER_TENANT_MAX = 256
TENANTS_MAX = 4_096
"""Tenants with something retained. What further tenants ask to retain is left out."""
CHUNK_TOKENS = 64
"""Prompts are compared in chunks of so many tokens."""
LEFT_ITEMS_MAX = 8
"""Parts of earlier prompts that a line knows apart. Of more, the oldest count as one."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A beginning of a prompt that is retained, by the digests of its chunks, the last of which may be shorter."""

    tokens: int
    digests: Sequence[bytes]

    @classmethod
    def of(cls, ids: Sequence[int]) -> _Beginning:
        starts = range(0, len(ids), CHUNK_TOKENS)
        return cls(len(ids), [_digest(ids[start : start + CHUNK_TOKENS]) for start in starts])

    def common_tokens(self, other: _Beginning, ids: Sequence[int]) -> int:
        """The tokens that it has in common with the `other` one, of a prompt with these `ids`: all its tokens, or those
        of whole chunks."""
        pairs = zip(self.digests, other.digests, strict=False)
        same = next((place for place, (one, two) in enumerate(pairs) if one != two), len(self.digests))
        same = min(same, len(other.digests))
        start = same * CHUNK_TOKENS
        if start >= self.tokens:
            return self.tokens
        is_all = same == len(self.digests) - 1 and _digest(ids[start : self.tokens]) == self.digests[-1]
        return self.tokens if is_all else min(start, other.tokens)


@dataclass(slots=True)
class _Line:
    """The longest beginning of the last prompt of one line of turns, and the rest of earlier ones."""

    kept: _Beginning
    until_s: float
    left: list[tuple[int, float]] = field(default_factory=list)
    """Tokens of earlier prompts that are no part of `kept`, and until when they are retained."""

    @property
    def tokens(self) -> int:
        return self.kept.tokens + sum(tokens for tokens, _ in self.left)

    @property
    def next_s(self) -> float:
        return min(self.until_s, *(until_s for _, until_s in self.left), inf)


@dataclass(slots=True)
class _Tenant:
    lines: dict[str, _Line] = field(default_factory=dict)
    tokens: int = 0
    next_s: float = inf
    """The first time at which something ends, or an earlier one."""

    def forget(self, now_s: float) -> None:
        """Forgets what is no longer retained."""
        if now_s < self.next_s:
            return
        for name, line in list(self.lines.items()):
            line.left = [each for each in line.left if each[1] > now_s]
            if line.until_s <= now_s:
                line.kept = _Beginning(0, ())
                line.until_s = inf
            if not line.tokens:
                del self.lines[name]
        self.tokens = sum(line.tokens for line in self.lines.values())
        self.next_s = min((line.next_s for line in self.lines.values()), default=inf)


class RetainedShares:
    """The shares of one model. Safe to use from several threads."""

    def __init__(self, tokens_per_tenant: int, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._most = tokens_per_tenant
        self._now_s = monotonic_s
        self._tenants: dict[str, _Tenant] = {}
        self._lock = Lock()

    def of(self, tenant: str) -> TenantShare:
        return TenantShare(self, tenant)

    def take(self, tenant: str, line: str, ids: Sequence[int], seconds: int) -> bool:
        """Counts the beginning of a prompt in a line of turns. Returns False, and counts nothing, if the tenant's share
        is too small for it, or has too many lines."""
        if len(ids) > self._most:
            return False
        asked = _Beginning.of(ids)
        with self._lock:
            now_s = self._now_s()
            holder = self._holder(tenant, now_s)
            if holder is None:
                return False
            before = holder.lines.get(line)
            if before is None and len(holder.lines) >= LINES_PER_TENANT_MAX:
                return False
            after = _next(before, asked, ids, now_s + seconds)
            tokens = holder.tokens - (before.tokens if before is not None else 0) + after.tokens
            if tokens > self._most:
                return False
            holder.lines[line], holder.tokens = after, tokens
            holder.next_s = min(holder.next_s, after.next_s)
            self._tenants[tenant] = holder
            return True

    def beginning(self, tenant: str, line: str, ids: Sequence[int]) -> tuple[int, int]:
        """How many tokens at the beginning of a prompt its line has retained, and for how many seconds more."""
        if (known := self._tenants.get(tenant)) is None or line not in known.lines:
            return 0, 0
        asked = _Beginning.of(ids)
        with self._lock:
            now_s = self._now_s()
            holder = self._holder(tenant, now_s)
            before = holder.lines.get(line) if holder is not None else None
            if before is None or not before.kept.tokens:
                return 0, 0
            return before.kept.common_tokens(asked, ids), max(1, int(before.until_s - now_s))

    def _holder(self, tenant: str, now_s: float) -> _Tenant | None:
        """The retained beginnings of a tenant. None: there are too many others."""
        if (holder := self._tenants.get(tenant)) is None and len(self._tenants) >= TENANTS_MAX:
            for name, other in list(self._tenants.items()):
                other.forget(now_s)
                if not other.lines:
                    del self._tenants[name]
            if len(self._tenants) >= TENANTS_MAX:
                return None
        holder = holder or _Tenant()
        holder.forget(now_s)
        return holder


@dataclass(frozen=True, slots=True)
class TenantShare:
    """The share of one tenant: see `RetainedShares`."""

    shares: RetainedShares
    tenant: str

    def take(self, line: str, ids: Sequence[int], seconds: int) -> bool:
        return self.shares.take(self.tenant, line, ids, seconds)

    def beginning(self, line: str, ids: Sequence[int]) -> tuple[int, int]:
        return self.shares.beginning(self.tenant, line, ids)


def _next(before: _Line | None, asked: _Beginning, ids: Sequence[int], until_s: float) -> _Line:
    """A line behind one more prompt."""
    if before is None or not before.kept.tokens:
        return _Line(asked, until_s, before.left if before is not None else [])
    common = before.kept.common_tokens(asked, ids)
    new, rest = asked.tokens - common, before.kept.tokens - common
    is_within = new < CHUNK_TOKENS <= rest
    left = list(before.left)
    if is_within and new:  # maybe a part of what is kept, and maybe not
        left.append((new, until_s))
    elif not is_within and rest:
        left.append((rest, before.until_s))
    if len(left) > LEFT_ITEMS_MAX:
        (one, one_s), (two, two_s), *others = left
        left = [(one + two, max(one_s, two_s)), *others]
    return _Line(before.kept if is_within else asked, max(before.until_s, until_s), left)


def _digest(ids: Sequence[int]) -> bytes:
    return blake2b(array("q", ids).tobytes(), digest_size=16).digest()
