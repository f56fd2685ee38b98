from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from antiphon_translator.engines.endpoint_choice import (
    EJECT_FIRST_S,
    EJECT_MAX_S,
    FAULTS_TO_EJECT,
    LOAD_BOUND,
    Endpoint,
    EndpointChoice,
    Outcome,
)
from antiphon_translator.engines.placement_cost import rank
from antiphon_translator.generation import GenerationRequest, TokenPrompt
from antiphon_translator.placement import PlacementHint, RootPrefix, placement_of

REQUEST = GenerationRequest(request_id="r", prompt=TokenPrompt((1, 2)), max_tokens=10)
NOW_S, NOW_MS = 1_000.0, 1_700_000_000_000
KEYS = [f"key-{number}" for number in range(400)]


def of(*names: str) -> EndpointChoice:
    return EndpointChoice(names)


def endpoint_of(choice: EndpointChoice, request: GenerationRequest = REQUEST, **given: Any) -> Endpoint:
    chosen = choice.choose(request, now_s=NOW_S, now_ms=NOW_MS, **given)
    assert chosen is not None
    return chosen.endpoint


def chosen(choice: EndpointChoice, cache_key: str | None = None) -> str:
    return endpoint_of(choice, replace(REQUEST, cache_key=cache_key)).name


def test_without_a_cache_key_the_least_loaded_endpoint_is_chosen_in_rotation() -> None:
    choice = of("a", "b", "c")
    assert [chosen(choice) for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]
    choice.endpoints[0].in_flight = choice.endpoints[1].in_flight = 1
    assert [chosen(choice) for _ in range(2)] == ["c", "c"]


def test_cache_keys_are_spread_and_keep_their_endpoint_when_another_leaves() -> None:
    homes = {key: chosen(of("a", "b", "c"), cache_key=key) for key in KEYS}
    assert homes == {key: chosen(of("c", "a", "b"), cache_key=key) for key in KEYS}
    assert min(Counter(homes.values()).values()) > len(KEYS) / 3 * 0.7
    fewer = {key: chosen(of("a", "b"), cache_key=key) for key in KEYS}
    assert all(fewer[key] == home for key, home in homes.items() if home != "c")


def test_popular_cache_key_does_not_overload_its_endpoint() -> None:
    choice = of("a", "b", "c", "d")
    for _ in range(80):
        endpoint_of(choice, replace(REQUEST, cache_key="all the same")).in_flight += 1
    loads = sorted(endpoint.in_flight for endpoint in choice.endpoints)
    assert loads[-1] <= 80 / 4 * LOAD_BOUND + 1
    assert loads[-1] > loads[0]


def test_repeated_ejections_back_off_up_to_a_maximum() -> None:
    endpoint, now, pauses = Endpoint("a"), 0.0, []
    for _ in range(9):
        pauses.append(endpoint.eject(now))
        now = endpoint.ejected_until
    assert pauses[:3] == [EJECT_FIRST_S, 2 * EJECT_FIRST_S, 4 * EJECT_FIRST_S]
    assert pauses[-1] == EJECT_MAX_S
    endpoint.note_success()
    assert endpoint.eject(now) == EJECT_FIRST_S


def test_failures_during_an_ejection_count_once() -> None:
    endpoint = Endpoint("a")
    endpoint.eject(10.0)
    assert endpoint.eject(10.5) == EJECT_FIRST_S - 0.5
    assert endpoint.ejections == 1


def test_ejected_endpoint_is_due_when_its_pause_ends() -> None:
    choice = of("a", "b")
    first, second = choice.endpoints
    first.eject(0.0)
    assert (first.is_due(EJECT_FIRST_S / 2), first.is_due(EJECT_FIRST_S), second.is_due(EJECT_FIRST_S)) == (0, 1, 0)
    assert [chosen(choice) for _ in range(2)] == ["b", "b"]
    first.note_success()
    assert (chosen(choice), first.is_due(EJECT_FIRST_S)) == ("a", False)


def test_with_all_endpoints_ejected_the_one_due_first_is_chosen() -> None:
    choice = of("a", "b")
    choice.endpoints[0].eject(0.5)
    choice.endpoints[1].eject(0.0)
    assert chosen(choice) == "b"
    assert endpoint_of(choice, without=("b",)) is choice.endpoints[0]
    assert choice.choose(REQUEST, now_s=NOW_S, now_ms=NOW_MS, without=("a", "b")) is None


def test_endpoint_is_ejected_only_after_many_faults_in_a_row() -> None:
    endpoint = Endpoint("a")
    before = [endpoint.fault() for _ in range(FAULTS_TO_EJECT - 1)]
    endpoint.note_success()
    faults = [endpoint.fault() for _ in range(2 * FAULTS_TO_EJECT)]
    in_a_row = [False] * (FAULTS_TO_EJECT - 1)
    assert (before, faults) == (in_a_row, [*in_a_row, True] * 2)


def hint(name: str, tokens: int, age_s: float = 1.0) -> PlacementHint:
    return PlacementHint(placement_of(name), tokens, NOW_MS - round(1000 * age_s))


def placed(choice: EndpointChoice, *hints: PlacementHint, tokens: int = 32_000, **given: Any) -> tuple[str, Outcome]:
    request = replace(REQUEST, placement=hints, prompt_tokens=tokens, **given)
    found = choice.choose(request, now_s=NOW_S, now_ms=NOW_MS)
    assert found is not None
    return found.endpoint.name, found.outcome


@pytest.mark.parametrize("home", ["a", "b", "c"])
def test_prompt_stays_at_the_endpoint_of_its_longest_beginning(home: str) -> None:
    others = [hint(name, 5_000) for name in "abc" if name != home]
    hints = [*others, hint(home, 30_000)]
    for order in (hints, hints[::-1]):
        assert placed(of("a", "b", "c"), *order, cache_key="k") == (home, Outcome.KEPT)


def test_all_translators_choose_alike_without_shared_memory() -> None:
    roots = [RootPrefix(f"root-{number}", 20_000) for number in range(40)]
    one, other = of("a", "b", "c", "d"), of("d", "c", "b", "a")
    for _ in range(9):
        endpoint_of(other)
    for number, root in enumerate(roots):
        assert placed(one, hint("abcd"[number % 4], 9_000)) == placed(other, hint("abcd"[number % 4], 9_000))
        both = {placed(choice, root=root)[0] for choice in (one, other)}
        assert both <= {
            name for name in "abcd" if rank(root.key, name) >= sorted(rank(root.key, x) for x in "abcd")[-2]
        }


def test_prompt_leaves_an_endpoint_with_a_long_queue() -> None:
    choice = of("a", "b")
    home = choice.endpoints[0].cache
    home.backlog_tokens = 20_000
    assert placed(choice, hint("a", 28_000)) == ("a", Outcome.KEPT)
    home.backlog_tokens = 80_000
    assert placed(choice, hint("a", 28_000)) == ("b", Outcome.MOVED_LOAD)


def test_prompt_of_an_ejected_endpoint_goes_to_the_deepest_ancestor_elsewhere() -> None:
    choice = of("a", "b", "c")
    choice.endpoints[0].eject(NOW_S)
    ancestors = (hint("a", 30_000), hint("c", 20_000), hint("b", 9_000))
    assert placed(choice, *ancestors) == ("c", Outcome.MOVED_DEAD)
    assert placed(choice, hint("a", 30_000))[1] is Outcome.MOVED_DEAD
    choice.endpoints[0].note_success()
    assert placed(choice, *ancestors) == ("a", Outcome.KEPT)


def test_prompt_whose_hints_are_void_is_placed_as_a_root() -> None:
    choice = of("a", "b", "c")
    choice.endpoints[1].cache.note_hit(9_000, 0, 1.0, NOW_S)
    by_key = chosen(choice, "k")
    assert placed(choice, hint("b", 30_000), cache_key="k") == (by_key, Outcome.ROOT)
    assert placed(choice, cache_key="k") == (by_key, Outcome.ROOT)


def test_pressure_spreads_conversations_of_one_root() -> None:
    choice, root = of("a", "b", "c", "d"), RootPrefix("root", 6_000)
    counts = Counter[str]()
    for _ in range(40):
        request = replace(REQUEST, root=root, prompt_tokens=8_000)
        found = choice.choose(request, now_s=NOW_S, now_ms=NOW_MS)
        assert found is not None
        counts[found.endpoint.name] += 1
        found.endpoint.cache.place(2_000, 8_000, NOW_S)
        found.endpoint.cache.backlog_tokens = 0
    assert set(counts) == {*"abcd"}
    assert max(counts.values()) < 20


def test_prompt_is_read_in_advance_only_where_its_turn_will_go_and_nothing_waits() -> None:
    choice = of("a", "b")

    def can_prewarm(*names: str) -> bool:
        hints = [PlacementHint(placement_of(name), 500, NOW_MS) for name in names]
        asked = replace(REQUEST, prompt_tokens=1_000, placement=hints, is_prewarm=True)
        return choice.can_prewarm(asked, now_s=NOW_S, now_ms=NOW_MS)

    assert can_prewarm("a")
    assert not can_prewarm(), "nobody knows where its turn will go"
    choice.endpoints[0].cache.place(1_000, 1_000, NOW_S)
    assert [can_prewarm(name) for name in "ab"] == [False, True]
    choice.endpoints[1].eject(NOW_S)
    assert not can_prewarm("b")
