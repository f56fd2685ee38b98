"""How many tokens of a model's KV cache each tenant has asked to retain.

Without a share, one tenant with a lifetime in every request would push all others out of the cache. A line of turns
counts what its prompts do not have in common with its latest ones, whatever the client names the line: a prompt that
repeats an earlier one counts once, and unrelated prompts of one name count each. The shares are those of one process.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import inf
from threading import Lock

LINES_PER_TENANT_MAX = 256
TENANTS_MAX = 4_096
"""Tenants with something retained. What further tenants ask to retain is left out."""
CHUNK_TOKENS = 64
"""Prompts are compared in chunks of so many tokens."""
BRANCHES_MAX = 8
"""Prompts that a line knows, for the conversations of one `prompt_cache_key`. Of more, the oldest only count."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A beginning of a prompt that is retained, by the digests of its chunks, the last of which may be shorter."""

    tokens: int
    digests: Sequence[bytes]

    @classmethod
    def of(cls, ids: Sequence[int]) -> _Beginning:
        starts = range(0, len(ids), CHUNK_TOKENS)
        return cls(len(ids), [_digest(ids[start : start + CHUNK_TOKENS]) for start in starts])

    def common_chunks(self, other: _Beginning) -> int:
        pairs = enumerate(zip(self.digests, other.digests, strict=False))
        shorter = min(len(self.digests), len(other.digests))
        return next((place for place, (one, two) in pairs if one != two), shorter)

    def common_tokens(self, other: _Beginning, ids: Sequence[int]) -> int:
        """The tokens that it has in common with the `other` one, of a prompt with these `ids`: all its tokens, or those
        of whole chunks."""
        same = self.common_chunks(other)
        start = same * CHUNK_TOKENS
        if start >= self.tokens:
            return self.tokens
        is_all = same == len(self.digests) - 1 and _digest(ids[start : self.tokens]) == self.digests[-1]
        return self.tokens if is_all else min(start, other.tokens)


@dataclass(frozen=True, slots=True)
class _Branch:
    """A beginning that is retained, of which `tokens` are counted here, and the others at other branches."""

    kept: _Beginning
    tokens: int
    until_s: float


_NOTHING = _Branch(_Beginning(0, ()), 0, 0.0)
_Line = tuple[_Branch, ...]
"""The branches of one line of turns, the latest last."""


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
            lasting = tuple(branch for branch in line if branch.until_s > now_s)
            if not lasting:
                del self.lines[name]
            elif len(lasting) < len(line):
                self.lines[name] = _count_anew(lasting)
        self.tokens = sum(_tokens(line) for line in self.lines.values())
        self.next_s = min((branch.until_s for line in self.lines.values() for branch in line), default=inf)


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
            before = holder.lines.get(line, ())
            if not before and len(holder.lines) >= LINES_PER_TENANT_MAX:
                return False
            after = _next(before, asked, ids, now_s + seconds)
            tokens = holder.tokens - _tokens(before) + _tokens(after)
            if tokens > self._most:
                return False
            holder.lines[line], holder.tokens = after, tokens
            holder.next_s = min(holder.next_s, *(branch.until_s for branch in after))
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
            best, common = _closest(holder.lines.get(line, ()) if holder is not None else (), asked, ids)
            return (common, max(1, int(best.until_s - now_s))) if common else (0, 0)

    def __len__(self) -> int:
        """The number of branches."""
        return sum(len(line) for holder in self._tenants.values() for line in holder.lines.values())

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


def _next(before: _Line, asked: _Beginning, ids: Sequence[int], until_s: float) -> _Line:
    """A line behind one more prompt."""
    best, common = _closest(before, asked, ids)
    new, rest = asked.tokens - common, best.kept.tokens - common
    if best is not _NOTHING and (not rest or new < CHUNK_TOKENS):  # less than a chunk is maybe a part of the branch
        line = tuple(branch for branch in before if branch is not best)
        line = (*line, _Branch(best.kept if rest else asked, best.tokens + new, max(best.until_s, until_s)))
    else:
        line = (*before, _Branch(asked, new, until_s))
    if len(line) <= BRANCHES_MAX:
        return line
    one, two, *latest = line
    return (_Branch(_NOTHING.kept, one.tokens + two.tokens, max(one.until_s, two.until_s)), *latest)


def _count_anew(line: _Line) -> _Line:
    """The line if others that counted for what its branches have in common are no longer there."""
    made = list[_Branch]()
    for branch in line:
        common = max((each.kept.common_chunks(branch.kept) for each in made), default=0)
        uncounted = branch.kept.tokens - common * CHUNK_TOKENS
        made.append(replace(branch, tokens=max(branch.tokens, uncounted)))
    return tuple(made)


def _closest(line: _Line, asked: _Beginning, ids: Sequence[int]) -> tuple[_Branch, int]:
    """The branch that has most in common with a prompt, and how much that is."""
    found = [(branch.kept.common_tokens(asked, ids), branch) for branch in line]
    common, best = max(found, key=lambda each: each[0], default=(0, _NOTHING))
    return (best, common) if common else (_NOTHING, 0)


def _tokens(line: _Line) -> int:
    return sum(branch.tokens for branch in line)


def _digest(ids: Sequence[int]) -> bytes:
    return blake2b(array("q", ids).tobytes(), digest_size=16).digest()
