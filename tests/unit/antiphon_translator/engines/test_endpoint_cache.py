from __future__ import annotations

import math

import pytest

from antiphon_translator.engines.endpoint_cache import (
    LOAD_KEPT_S,
    MISS_BLOCKS_MIN,
    PREFILL_TOKENS_PER_S,
    PRESSURE_HALF_LIFE_S,
    RATE_TOKENS_MIN,
    ROOT_KEPT_S,
    ROOTS_MAX,
    EndpointCache,
    LoadReport,
)
from antiphon_translator.lineage.cache_loss import BLOCK_TOKENS, Loss

NOW_S = 10_000.0


def test_rate_converges_to_what_is_measured_and_ignores_short_prefills() -> None:
    cache = EndpointCache()
    cache.measure(RATE_TOKENS_MIN - 1, 100.0)
    assert cache.rate == PREFILL_TOKENS_PER_S
    for _ in range(30):
        cache.measure(8_000, 2.0)
    assert cache.rate == pytest.approx(4_000, rel=0.02)


def test_prefix_counts_for_as_long_as_the_cache_was_seen_to_keep_one() -> None:
    cache = EndpointCache()
    assert cache.chance(10_000, NOW_S) == 1
    cache.note_hit(9_000, 6_000, 100, NOW_S)  # a part was evicted
    assert [cache.chance(age_s, NOW_S) for age_s in (50, 100, 200, 400)] == [1, 1, 0.5, 0.25]
    cache.note_hit(9_000, 9_000, 300, NOW_S)
    assert cache.chance(300, NOW_S) == 1
    cache.note_hit(9_000, 6_000, 100, NOW_S)
    assert cache.kept_s == 200, "halfway: one miss among hits is an exception"


def test_prefix_that_is_gone_too_early_voids_all_earlier_hints() -> None:
    cache = EndpointCache()
    cache.note_hit(9_000, 9_000, 500, NOW_S)
    cache.note_hit(9_000, 0, 20, NOW_S)
    assert cache.kept_s == math.inf, "a restart says nothing of evictions"
    assert [cache.chance(age_s, NOW_S + 60) for age_s in (59, 61, 5_000)] == [1, 0, 0]
    assert cache.epoch_s == NOW_S


def test_prefix_that_is_gone_at_its_age_voids_only_hints_before_it() -> None:
    cache = EndpointCache()
    cache.note_hit(9_000, 5_000, 100, NOW_S)
    cache.note_hit(9_000, 0, 300, NOW_S)
    assert [cache.chance(age_s, NOW_S) for age_s in (90, 301)] == [1, 0]


@pytest.mark.parametrize(("block_tokens", "expected"), [(0, MISS_BLOCKS_MIN * BLOCK_TOKENS - 1), (128, 500)])
def test_prefix_of_few_blocks_means_nothing_when_it_is_gone(block_tokens: int, expected: int) -> None:
    cache = EndpointCache()
    cache.note_hit(expected, 0, 20, NOW_S, block_tokens)
    assert (cache.epoch_s, cache.kept_s) == (-math.inf, math.inf)
    cache.note_hit(MISS_BLOCKS_MIN * (block_tokens or BLOCK_TOKENS), 0, 20, NOW_S, block_tokens)
    assert (cache.epoch_s, cache.kept_s) == (NOW_S, math.inf)


def test_loss_is_named_by_what_was_left_and_what_was_seen_before() -> None:
    cache = EndpointCache()
    assert cache.loss(0, 20, NOW_S, root_tokens=100) is Loss.RESTARTED
    assert cache.loss(100, 20, NOW_S, root_tokens=100) is Loss.UNKNOWN, "others may have put the root there again"
    assert cache.loss(101, 20, NOW_S, root_tokens=100) is Loss.EVICTED
    cache.note_hit(9_000, 5_000, 100, NOW_S)
    assert cache.loss(0, 101, NOW_S, root_tokens=100) is Loss.EVICTED, "the cache keeps nothing for so long"
    cache.note_hit(9_000, 0, 50, NOW_S)
    assert cache.loss(101, 51, NOW_S + 1, root_tokens=100) is Loss.RESTARTED, "another prompt has shown that"


def test_pressure_halves_with_time() -> None:
    cache = EndpointCache()
    cache.place(100, 800, NOW_S)
    cache.place(0, 100, NOW_S + PRESSURE_HALF_LIFE_S)
    assert cache.pressure(NOW_S + 2 * PRESSURE_HALF_LIFE_S) == pytest.approx(250)


def test_waiting_tokens_are_those_of_all_translators() -> None:
    cache = EndpointCache()
    cache.place(1_000, 1_000, NOW_S)
    assert (cache.waiting_tokens(NOW_S, 1), cache.waiting_tokens(NOW_S, 4)) == (1_000, 4_000)
    for _ in range(50):
        cache.place(1_000, 1_000, NOW_S)
    cache.backlog_tokens = 0
    cache.note_load(LoadReport(waiting=3, at_s=NOW_S))
    assert cache.waiting_tokens(NOW_S, 4) == pytest.approx(3_000, rel=0.01)
    cache.place(500, 500, NOW_S)
    assert cache.waiting_tokens(NOW_S, 4) == pytest.approx(3_200, rel=0.1), "and those that came since the report"
    assert cache.waiting_tokens(NOW_S + LOAD_KEPT_S + 1, 4) == 2_000, "an old report says nothing"


def test_root_is_remembered_for_a_while_and_not_over_a_restart() -> None:
    cache = EndpointCache()
    assert not cache.has_root("a", NOW_S)
    cache.note_root("a", NOW_S)
    assert [cache.has_root("a", NOW_S + age_s) for age_s in (0, ROOT_KEPT_S, ROOT_KEPT_S + 1)] == [True, True, False]
    cache.note_hit(9_000, 0, 20, NOW_S + 1)
    assert not cache.has_root("a", NOW_S + 2)
    for number in range(ROOTS_MAX):
        cache.note_root(f"b{number}", NOW_S)
    cache.note_root("c", NOW_S + 5)
    assert [cache.has_root(key, NOW_S + 5) for key in ("b0", "c")] == [False, True]
    assert len(cache._roots) == ROOTS_MAX
