from __future__ import annotations

from collections import Counter

import pytest

from antiphon_translator.engines.endpoint_cache import LOAD_KEPT_S, PREFILL_TOKENS_PER_S, EndpointCache, LoadReport
from antiphon_translator.engines.placement_cost import (
    MOVE_GAIN_S,
    MOVE_GAIN_SHARE,
    PRESSURE_WEIGHT,
    REPORTED_PRESSURE_WEIGHT,
    ROOT_HOMES,
    Held,
    PlacementCosts,
)
from antiphon_translator.generation import GenerationRequest, TokenPrompt
from antiphon_translator.placement import PlacementHint, RootPrefix, placement_of

NAMES = ("a", "b", "c", "d")
NOW_S, NOW_MS = 10_000.0, 1_700_000_000_000


def hint(name: str, tokens: int, age_s: float = 1.0) -> PlacementHint:
    return PlacementHint(placement_of(name), tokens, NOW_MS - round(age_s * 1000))


def caches(**changed: EndpointCache) -> dict[str, EndpointCache]:
    return {name: changed.get(name, EndpointCache()) for name in NAMES}


def costs(
    *hints: PlacementHint,
    tokens: int = 32_000,
    root: RootPrefix | None = None,
    known: dict[str, EndpointCache] | None = None,
    translators: int = 1,
) -> PlacementCosts:
    request = GenerationRequest("r", TokenPrompt(()), max_tokens=9, prompt_tokens=tokens, placement=hints, root=root)
    placements = {placement_of(name): name for name in NAMES}
    known = caches() if known is None else known
    return PlacementCosts(request, known, placements, now_s=NOW_S, now_ms=NOW_MS, translators=translators)


def test_cost_is_the_time_to_prefill_what_waits_and_what_is_not_cached() -> None:
    busy = EndpointCache(rate=8_000.0, backlog_tokens=4_000)
    busy.place(0, 1_000, NOW_S)
    made = costs(hint("b", 24_000), known=caches(b=busy), translators=2)
    assert (made.seconds("a"), made.seconds("b")) == (32_000 / PREFILL_TOKENS_PER_S, (2 * 4_000 + 8_000) / 8_000)
    assert made.with_pressure("a") == made.seconds("a"), "no other has less"
    assert made.with_pressure("b") == pytest.approx(made.seconds("b") + PRESSURE_WEIGHT * 2 * 1_000 / 8_000)


@pytest.mark.parametrize(
    ("age_s", "weight"), [(LOAD_KEPT_S, REPORTED_PRESSURE_WEIGHT), (LOAD_KEPT_S + 1, PRESSURE_WEIGHT)]
)
def test_pressure_weighs_more_while_loads_are_reported(age_s: float, weight: float) -> None:
    pressed = EndpointCache()
    pressed.place(0, 1_000, NOW_S)
    pressed.note_load(LoadReport(0, NOW_S - age_s))
    made = costs(known=caches(b=pressed))
    assert made.with_pressure("b") == pytest.approx(made.seconds("b") + weight * 1_000 / PREFILL_TOKENS_PER_S)


def test_best_of_several_hints_at_one_endpoint_counts() -> None:
    short_memory = EndpointCache(kept_s=10)
    made = costs(hint("a", 9_000, 40), hint("a", 8_000, 5), hint("b", 5_000), known=caches(a=short_memory))
    assert (made.share_at("a"), made.home()) == (Held(8_000, 5), "a")


def test_cached_part_is_never_more_than_the_prompt() -> None:
    assert costs(hint("a", 9_000), tokens=5_000).seconds("a") == 0


@pytest.mark.parametrize("time_ms", [NOW_MS + 60_000, 0, -(2**60)])
def test_hint_with_a_wrong_time_is_harmless(time_ms: int) -> None:
    made = costs(PlacementHint(placement_of("a"), 9_000, time_ms))
    assert made.share_at("a").tokens == 9_000


def test_void_hint_and_hint_of_an_unknown_endpoint_hold_nothing() -> None:
    made = costs(hint("a", 9_000, 60), hint("elsewhere", 20_000), known=caches(a=EndpointCache(epoch_s=NOW_S - 59)))
    assert (made.home(), made.hinted, made.is_home_gone) == (None, {}, True)


def test_root_prefix_has_two_homes_that_every_process_knows() -> None:
    homes = Counter[str]()
    for number in range(200):
        root = RootPrefix(f"root-{number}", 6_000)
        held = [name for name in NAMES if costs(root=root).share_at(name).tokens]
        assert held == [name for name in NAMES if costs(root=root).share_at(name) == Held(6_000)]
        assert len(held) == ROOT_HOMES
        homes.update(held)
    assert min(homes.values()) > 0.7 * 200 * ROOT_HOMES / len(NAMES)


def test_root_prefix_counts_where_it_was_served_and_less_than_an_earlier_turn() -> None:
    root = RootPrefix("root", 6_000)
    warm = {name: EndpointCache() for name in NAMES}
    for cache in warm.values():
        cache.note_root("root", NOW_S)
    made = costs(hint("a", 20_000), hint("b", 3_000), root=root, known=warm)
    assert [made.share_at(name).tokens for name in NAMES] == [20_000, 6_000, 6_000, 6_000]


@pytest.mark.parametrize(
    ("waiting", "tokens", "is_worth"),
    [
        (0, 32_000, False),
        (3_900, 1_000, False),  # a gain of 81 %, but of less than 250 ms
        (5_000, 1_000, True),
        (40_000, 32_000, True),
        (9_000, 32_000, False),  # of less than 30 %
    ],
)
def test_prompt_moves_only_for_a_large_gain_in_share_and_time(waiting: int, tokens: int, is_worth: bool) -> None:
    home = EndpointCache(backlog_tokens=waiting)
    made = costs(tokens=tokens, known=caches(a=home))
    gain_s = made.seconds("a") - made.seconds("b")
    assert is_worth == (gain_s > MOVE_GAIN_S and gain_s > MOVE_GAIN_SHARE * made.seconds("a"))
    assert made.is_worth_a_move("a", "b") is is_worth
