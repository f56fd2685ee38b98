from __future__ import annotations

from collections import Counter

from antiphon_translator.engines.endpoint_choice import (
    EJECT_FIRST_S,
    EJECT_MAX_S,
    FAULTS_TO_EJECT,
    LOAD_BOUND,
    Endpoint,
    EndpointChoice,
)

KEYS = [f"key-{number}" for number in range(400)]


def of(*names: str) -> EndpointChoice:
    return EndpointChoice(names)


def chosen(choice: EndpointChoice, cache_key: str | None = None) -> str:
    endpoint = choice.choose(cache_key=cache_key)
    assert endpoint is not None
    return endpoint.name


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
        endpoint = choice.choose(cache_key="all the same")
        assert endpoint is not None
        endpoint.in_flight += 1
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
    assert choice.choose(without=("b",)) is choice.endpoints[0]
    assert choice.choose(without=("a", "b")) is None


def test_endpoint_is_ejected_only_after_many_faults_in_a_row() -> None:
    endpoint = Endpoint("a")
    before = [endpoint.fault() for _ in range(FAULTS_TO_EJECT - 1)]
    endpoint.note_success()
    faults = [endpoint.fault() for _ in range(2 * FAULTS_TO_EJECT)]
    in_a_row = [False] * (FAULTS_TO_EJECT - 1)
    assert (before, faults) == (in_a_row, [*in_a_row, True] * 2)
