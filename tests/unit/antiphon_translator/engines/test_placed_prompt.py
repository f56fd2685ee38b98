from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from antiphon_translator.engines.endpoint_cache import PREFILL_TOKENS_PER_S, RATE_WEIGHT
from antiphon_translator.engines.endpoint_choice import Chosen, Endpoint, Outcome
from antiphon_translator.engines.placed_prompt import PlacedPrompt
from antiphon_translator.engines.placement_cost import NOTHING_HELD, Held
from antiphon_translator.generation import EngineFacts, GenerationRequest, TokenPrompt
from antiphon_translator.lineage.cache_loss import Loss
from antiphon_translator.placement import PlacementHint, RootPrefix, placement_of

NOW_S = 100.0


def request(tokens: int = 10_000) -> GenerationRequest:
    root = RootPrefix("root", 2_000)
    return GenerationRequest("r", TokenPrompt(()), max_tokens=9, prompt_tokens=tokens, root=root, block_tokens=64)


def placed(endpoint: Endpoint, held: Held = NOTHING_HELD) -> PlacedPrompt:
    return PlacedPrompt(Chosen(endpoint, Outcome.ROOT, held), request(), NOW_S)


def learned(rate: float) -> Any:
    """The rate after one measurement."""
    return pytest.approx(PREFILL_TOKENS_PER_S + RATE_WEIGHT * (rate - PREFILL_TOKENS_PER_S))


def test_prompt_counts_as_backlog_until_its_first_output_or_its_end() -> None:
    endpoint = Endpoint("a")
    first, second = placed(endpoint, Held(4_000, 5.0)), placed(endpoint)
    assert endpoint.cache.backlog_tokens == 16_000
    first.note_output(NOW_S + 1)
    assert endpoint.cache.backlog_tokens == 10_000
    for prompt in (first, second):
        prompt.end()
    assert endpoint.cache.backlog_tokens == 0


def test_pressure_is_the_tokens_that_no_earlier_turn_put_there() -> None:
    for held, added in ((NOTHING_HELD, 10_000), (Held(4_000, 5.0), 6_000), (Held(2_000), 10_000)):
        endpoint = Endpoint("a")
        placed(endpoint, held)
        assert endpoint.cache.pressure(NOW_S) == added


def hint(endpoint: str, tokens: int, *, age_s: float = 10) -> PlacementHint:
    return PlacementHint(placement_of(endpoint), tokens, round(1000 * (1_000 - age_s)))


@pytest.mark.parametrize(
    ("hints", "cached", "loss"),
    [
        ([hint("a", 5_000)], 5_000, None),
        ([hint("a", 5_000)], 4_990, Loss.BLOCK),
        ([hint("b", 5_000), hint("a", 4_000)], 4_000, Loss.OTHER_REPLICA),
        ([hint("a", 5_000)], 0, Loss.RESTARTED),
        ([hint("a", 5_000)], 3_000, Loss.EVICTED),
        ([hint("a", 5_000)], 2_000, Loss.UNKNOWN),  # no more than the root
        ([hint("a", 200)], 0, Loss.UNKNOWN),  # too few blocks to tell
        ([], 0, None),
    ],
)
def test_loss_of_an_expected_beginning_is_named(hints: list[PlacementHint], cached: int, loss: Loss | None) -> None:
    chosen = Chosen(Endpoint("a"), Outcome.ROOT)
    prompt = PlacedPrompt(chosen, replace(request(), placement=hints), NOW_S, now_ms=1_000_000)
    assert prompt.learn(EngineFacts(cached), NOW_S) is loss
    assert prompt.learn(EngineFacts(0), NOW_S) is None, "only the first report counts"


def test_first_output_shows_that_the_endpoint_has_the_root() -> None:
    endpoint = Endpoint("a")
    prompt = placed(endpoint)
    assert not endpoint.cache.has_root("root", NOW_S)
    prompt.note_output(NOW_S + 1)
    assert endpoint.cache.has_root("root", NOW_S + 1)


def test_rate_is_learned_once_from_the_engines_times_or_else_from_its_first_output() -> None:
    endpoint = Endpoint("a")
    prompt = placed(endpoint)
    prompt.note_output(NOW_S + 9)
    for _ in range(2):
        prompt.learn(EngineFacts(cached_tokens=2_000, prefill_ns=2 * 10**9), NOW_S + 9)
    prompt.end()
    assert endpoint.cache.rate == learned(8_000 / 2)
    endpoint = Endpoint("b")
    prompt = placed(endpoint)
    prompt.note_output(NOW_S + 2)
    prompt.learn(EngineFacts(cached_tokens=2_000), NOW_S + 2)
    assert endpoint.cache.rate == learned(8_000 / 2)


def test_rate_is_learned_from_the_expectation_where_the_engine_reports_nothing() -> None:
    endpoint = Endpoint("a")
    prompt = placed(endpoint, Held(4_000, 5.0))
    prompt.note_output(NOW_S + 2)
    prompt.end()
    assert endpoint.cache.rate == learned(6_000 / 2)


def test_first_output_behind_other_prompts_does_not_measure_the_rate() -> None:
    endpoint = Endpoint("a")
    _, second = placed(endpoint), placed(endpoint)
    second.note_output(NOW_S + 20)
    second.learn(EngineFacts(cached_tokens=0), NOW_S + 20)
    assert endpoint.cache.rate == PREFILL_TOKENS_PER_S


@pytest.mark.parametrize(("held", "is_lost"), [(Held(4_000, 5.0), True), (Held(4_000), False), (NOTHING_HELD, False)])
def test_missing_prefix_of_an_earlier_turn_is_a_lost_cache(held: Held, is_lost: bool) -> None:
    endpoint = Endpoint("a")
    prompt = placed(endpoint, held)
    prompt.note_output(NOW_S + 1)
    prompt.learn(EngineFacts(cached_tokens=0), NOW_S + 1)
    assert endpoint.cache.epoch_s == (NOW_S + 1 if is_lost else -math.inf)
