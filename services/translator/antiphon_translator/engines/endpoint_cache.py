"""The cache and the speed of one endpoint, as one process has learned them from its own generations.

Rules only: no I/O, and times of a monotonic clock in seconds as arguments. Nothing here is shared between translators
or survives a restart; each figure is learned anew within minutes (docs/explain/cache.md).

* `rate`: tokens that the endpoint prefills in a second, measured.
* The characteristic time: a cache that evicts the least recently used blocks keeps a prefix for about one time,
  whatever the prefix (Che, Tung and Wang, 2002). It rises with each hit of a greater age, and falls with each miss of a
  smaller one.
* The epoch: a prefix that should be there, and of which nothing is, was lost to a restart. Hints of earlier times are
  void. If the prefix was older than the characteristic time, it was evicted, and only the hints before it are void.
* `pressure`: the tokens of prompts that this process placed here of late, as a measure of what they evict. A shared
  root counts, though it is in the cache, because the conversation that begins with it will grow here.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field

from antiphon_translator.lineage.cache_loss import BLOCK_TOKENS, Loss

PREFILL_TOKENS_PER_S = 16_000.0
"""The rate of an endpoint before it is measured: llm-d's 15,928 for Qwen 32B on two H100."""
RATE_WEIGHT = 0.2
"""The weight of a new measurement. After five of them two thirds of the old value are gone."""
RATE_TOKENS_MIN = 1_024
"""Tokens of a prefill that measures the rate: fixed costs of 10 ms distort that of a shorter one."""
MISS_BLOCKS_MIN = 4
"""Blocks that must have been expected before a miss means anything: the last block of a prefix is often not reused."""
PRESSURE_HALF_LIFE_S = 240.0
"""Between 120 and 240 s the hit rate hardly changes; with 60 s one of eight endpoints got 1.3 times its share."""
ROOT_KEPT_S = 600.0
"""Seconds for which an endpoint that served a root prefix is taken to hold it."""
ROOTS_MAX = 1_024
LOAD_KEPT_S = 2.0
"""Seconds for which a load report counts: four polls. Decisions by reports of 1 s and of 5 s take 2.5 and 4 times as
long to the first token as those of 0.25 s (simulated with heavy cold traffic)."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The requests that wait at an endpoint for their prefill, of all its clients, at this time."""

    waiting: float
    at_s: float


@dataclass(eq=False)
class EndpointCache:
    """Knowledge of one endpoint's cache and speed."""

    rate: float = PREFILL_TOKENS_PER_S
    backlog_tokens: float = 0.0
    """Tokens that this process's generations without any output still have to prefill there."""
    kept_s: float = math.inf
    """The characteristic time; infinite until a prefix was missing."""
    epoch_s: float = -math.inf
    restarted_s: float = -math.inf
    """When a restart was last noticed."""
    _placed_tokens: float = 0.0
    _placed_at_s: float = 0.0
    _mean_uncached: float | None = None
    _report: LoadReport | None = None
    _tokens_since_report: float = 0.0
    _roots: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def chance(self, age_s: float, now_s: float) -> float:
        """The chance that a prefix which was used `age_s` ago is still in the cache."""
        if now_s - age_s <= self.epoch_s:
            return 0.0
        return 1.0 if age_s <= self.kept_s else self.kept_s / age_s

    def has_root(self, key: str, now_s: float) -> bool:
        """Whether this process saw the endpoint serve a root prefix of late."""
        served_s = self._roots.get(key, -math.inf)
        return served_s > self.epoch_s and now_s - served_s <= ROOT_KEPT_S

    def pressure(self, now_s: float) -> float:
        """Tokens that this process placed here; those of PRESSURE_HALF_LIFE_S ago count half."""
        return self._placed_tokens * math.pow(0.5, (now_s - self._placed_at_s) / PRESSURE_HALF_LIFE_S)

    def waiting_tokens(self, now_s: float, translators: int) -> float:
        """Tokens that the endpoint prefills before a new prompt. Without a report each of the other translators is
        taken to have placed as many as this one."""
        report = self._report
        if report is None or not self.has_report(now_s):
            return self.backlog_tokens * translators
        return report.waiting * (self._mean_uncached or 0.0) + min(self._tokens_since_report, self.backlog_tokens)

    def has_report(self, now_s: float) -> bool:
        """Whether a load report counts now."""
        return self._report is not None and now_s - self._report.at_s <= LOAD_KEPT_S

    def note_load(self, report: LoadReport) -> None:
        self._report, self._tokens_since_report = report, 0.0

    def place(self, uncached: float, added: float, now_s: float) -> None:
        """Counts a prompt that is sent to the endpoint, and of which `uncached` tokens are not in its cache. `added`
        tokens were not put there by an earlier turn of the conversation."""
        self._placed_tokens = self.pressure(now_s) + added
        self._placed_at_s = now_s
        self.backlog_tokens += uncached
        self._tokens_since_report += uncached
        mean = uncached if self._mean_uncached is None else self._mean_uncached
        self._mean_uncached = mean + RATE_WEIGHT * (uncached - mean)

    def note_root(self, key: str, now_s: float) -> None:
        self._roots[key] = now_s
        self._roots.move_to_end(key)
        if len(self._roots) > ROOTS_MAX:
            self._roots.popitem(last=False)

    def measure(self, uncached: float, prefill_s: float) -> None:
        """Learns the rate from one prefill."""
        if uncached >= RATE_TOKENS_MIN and prefill_s > 0:
            self.rate += RATE_WEIGHT * (uncached / prefill_s - self.rate)

    def loss(self, cached: int, age_s: float, now_s: float, *, root_tokens: int) -> Loss:
        """The cause for which the cache has only `cached` tokens, of a prefix that was used there `age_s` ago. A part
        of more than the root, which other conversations keep there, shows that there was no restart."""
        if now_s - age_s <= self.restarted_s:
            return Loss.RESTARTED
        if age_s > self.kept_s or cached > root_tokens:
            return Loss.EVICTED
        return Loss.UNKNOWN if cached else Loss.RESTARTED

    def note_hit(self, expected: float, cached: int, age_s: float, now_s: float, block_tokens: int = 0) -> None:
        """Learns from the part of a prompt that was found: `expected` tokens were used there `age_s` ago."""
        block = block_tokens or BLOCK_TOKENS
        if expected < MISS_BLOCKS_MIN * block:
            return
        if cached > expected - MISS_BLOCKS_MIN * block:
            self.kept_s = max(self.kept_s, age_s)
            return
        was_evicted = cached > 0 or age_s > self.kept_s
        if not cached:
            self.epoch_s = max(self.epoch_s, now_s - age_s if was_evicted else now_s)
            self.restarted_s = self.restarted_s if was_evicted else now_s
        if was_evicted and age_s < self.kept_s:
            self.kept_s = age_s if math.isinf(self.kept_s) else (self.kept_s + age_s) / 2
