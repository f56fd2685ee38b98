"""The gain of placement by the tree in a simulated fleet: a small form of `make bench-cache`, in virtual time.

The choice, the probes and the failover are those of the translator; the model servers are simulated."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache

import pytest

from tests.support.kv_fleet import traces, virtual_time, workload
from tests.support.kv_fleet.arms import ARMS, FOUR_TRANSLATORS, KEY_RULE, MIX_ARMS, PLAIN_MIX, RETAINING_MIX
from tests.support.kv_fleet.blocks import BLOCK_TOKENS, Chain
from tests.support.kv_fleet.kv_cache import NORMAL, ONE_SHOT, KvCache, Match
from tests.support.kv_fleet.simulation import Result, Scenario, replay, simulate

SMALL = Scenario(replicas=4, kv_tokens=220_000, sessions=40, at_once=24)
ANTIPHON = [name for name in ARMS if name.startswith("Antiphon")]


@cache
def result(arm: str, *, is_updated: bool = False) -> Result:
    scenario = replace(SMALL, stops_from_s=150.0) if is_updated else SMALL
    return simulate(scenario, ARMS[arm])


@pytest.mark.parametrize("arm", ANTIPHON)
def test_placement_finds_nearly_all_that_any_cache_could_have(arm: str) -> None:
    found = result(arm)
    assert found.turns > 800
    assert found.hit >= 0.985 * found.possible
    assert found.imbalance <= 1.3
    assert found.failed == 0


def test_number_of_translators_hardly_matters() -> None:
    hits = [result(arm).hit for arm in ANTIPHON]
    assert max(hits) - min(hits) <= 0.01


def test_placement_prefills_a_fraction_of_what_a_key_alone_leads_to() -> None:
    by_tree, by_key = result(FOUR_TRANSLATORS), result(KEY_RULE)
    assert by_key.input_tokens == by_tree.input_tokens, "the same turns"
    assert by_tree.uncached_tokens <= 0.3 * by_key.uncached_tokens
    assert by_tree.first_token_ms(0.95) <= 0.2 * by_key.first_token_ms(0.95)


def test_rolling_update_costs_little_of_the_hit_rate_and_no_turn() -> None:
    updated = result(FOUR_TRANSLATORS, is_updated=True)
    assert updated.failed == 0
    assert updated.turns == result(FOUR_TRANSLATORS).turns
    assert updated.hit >= 0.97 * result(FOUR_TRANSLATORS).hit
    assert updated.uncached_tokens > result(FOUR_TRANSLATORS).uncached_tokens, "the stops emptied caches"


def test_one_shots_of_low_priority_take_no_room_from_conversations() -> None:
    mixed = Scenario(replicas=2, kv_tokens=220_000, sessions=12, at_once=12, one_shots_per_s=1.0)
    plain, retaining = (simulate(mixed, MIX_ARMS[arm]) for arm in (PLAIN_MIX, RETAINING_MIX))
    assert plain.input_tokens == retaining.input_tokens, "the same turns"
    assert retaining.uncached_tokens <= 0.65 * plain.uncached_tokens
    assert retaining.hit > plain.hit


def test_prompt_read_in_advance_answers_a_person_in_less_than_half_the_time() -> None:
    thinking = Scenario(replicas=2, kv_tokens=300_000, sessions=12, at_once=12, thinks=0.6)
    plain, prewarming = (
        simulate(replace(thinking, prewarms=prewarms), ARMS[FOUR_TRANSLATORS]) for prewarms in (False, True)
    )
    assert plain.input_tokens == prewarming.input_tokens, "the same turns"
    assert prewarming.human_first_token_ms(0.5) <= 0.45 * plain.human_first_token_ms(0.5)
    assert prewarming.uncached_tokens + prewarming.prewarmed_tokens <= 1.1 * plain.uncached_tokens
    assert prewarming.failed == 0


def test_trace_is_replayed_at_its_speed_with_parents_that_are_whole_beginnings() -> None:
    lines = traces.load("synthetic")[:600]
    fleet = replace(SMALL, kv_tokens=2_000_000)
    fast, slow = (replay(fleet, ARMS[FOUR_TRANSLATORS], lines, speed=speed) for speed in (4.0, 1.0))
    assert fast.turns == slow.turns == len(lines)
    assert fast.input_tokens == sum(line.input_tokens for line in lines)
    assert fast.first_token_ms(0.5) > slow.first_token_ms(0.5)
    assert slow.possible > slow.hit > 1.5 * replay(fleet, ARMS["round robin"], lines).hit


def test_workload_is_the_same_for_every_way_of_routing() -> None:
    one, other = (workload.sessions(3, 20) for _ in range(2))
    assert [session.beginning.blocks for session in one] == [session.beginning.blocks for session in other]
    assert [workload.Script(5).next_turn() for _ in range(3)] == [workload.Script(5).next_turn() for _ in range(3)]


def test_block_depends_on_everything_before_it() -> None:
    root = Chain().add(BLOCK_TOKENS + 5, b"system")
    one, other = (root.copy().add(3 * BLOCK_TOKENS, content) for content in (b"one", b"other"))
    again = root.copy().add(3 * BLOCK_TOKENS, b"one")
    assert (one.blocks == again.blocks, one.blocks[0] == other.blocks[0]) == (True, True)
    assert not {*one.blocks[1:]} & {*other.blocks[1:]}
    assert not {*Chain(b"salt").add(400, b"one").blocks} & {*Chain().add(400, b"one").blocks}
    assert one.tokens == 4 * BLOCK_TOKENS + 5


def test_cache_evicts_leaves_only_the_oldest_first() -> None:
    cache = KvCache(4)
    cache.use([b"root", b"a1", b"a2"])
    cache.use([b"root", b"b1"])
    cache.use([b"root", b"b1", b"b2"])
    assert [cache.match(blocks) for blocks in ([b"root", b"a1", b"a2"], [b"root", b"b1", b"b2"])] == [
        Match(2, 0),
        Match(3, 0),
    ]
    assert len(cache) == 4


def test_cache_evicts_one_shots_first_but_no_block_that_others_build_on() -> None:
    cache = KvCache(4)
    cache.use([b"root", b"once"], ONE_SHOT)
    cache.use([b"chat", b"old"], NORMAL)
    cache.use([b"root", b"new"], NORMAL)
    assert [cache.match([b"root", name]).device for name in (b"once", b"new")] == [1, 2]
    assert cache.match([b"chat", b"old"]).device == 2


def test_evicted_blocks_are_found_in_the_hosts_memory() -> None:
    cache = KvCache(2, host_max=2)
    cache.use([b"a1", b"a2"])
    cache.use([b"b1"])
    assert cache.match([b"a1", b"a2"]) == Match(1, 1)
    cache.use([b"a1", b"a2"])
    assert cache.match([b"a1", b"a2"]) == Match(2, 0)
    cache.clear()
    assert cache.match([b"a1", b"b1"]) == Match(0, 0)


def test_virtual_time_jumps_to_the_next_timer() -> None:
    async def sleep() -> float:
        await asyncio.gather(asyncio.sleep(3_600), asyncio.sleep(10))
        return virtual_time.LoopClock().monotonic()

    assert virtual_time.run(sleep()) == pytest.approx(3_600)


def test_tasks_that_wait_for_each_other_end_a_run_with_an_error() -> None:
    with pytest.raises(RuntimeError, match="wait for each other"):
        virtual_time.run(asyncio.Event().wait())
