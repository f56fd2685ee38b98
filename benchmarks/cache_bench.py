"""Compares ways to choose a replica for a turn, by the KV caches of a simulated fleet in virtual time.

The rows of Antiphon run the translator's own choice, probes and failover, one engine for each translator; the other
rows are other routers' rules, written from their sources (tests/support/kv_fleet). The figures depend on the seed
alone, and are written into docs/explain/cache.md.

    python -m benchmarks.cache_bench [--seed 1] [--sessions 160]
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.scaling import page
from tests.support.kv_fleet import traces
from tests.support.kv_fleet.arms import ARMS, FOUR_TRANSLATORS, KEY_RULE, MIX_ARMS
from tests.support.kv_fleet.simulation import Result, Scenario, replay, simulate

PAGE = Path(__file__).parents[1] / "docs/explain/cache.md"
STOPS_FROM_S = 300.0
HEADINGS = ("", "hit %", "uncached tokens a turn", "first token p50 ms", "p95 ms", "imbalance")
TRACES = ("conversation", "synthetic")
TRACE_FLEET = Scenario(kv_tokens=1_000_000)
TRACE_SPEED = 2.0
ONE_SHOTS_PER_S = 2.0
THINKS = 0.6
PREWARM_HEADINGS = (*HEADINGS[:3], "read in advance", "a person's p50 ms", "p95 ms", "all p95 ms")
UPDATE = ", replicas stop in turn"


def main() -> None:
    options = _parse()
    logging.disable(logging.WARNING)  # of the replicas that stop
    scenario = Scenario(seed=options.seed, sessions=options.sessions)
    results = {name: simulate(scenario, arm) for name, arm in ARMS.items()}
    updated = replace(scenario, stops_from_s=STOPS_FROM_S)
    results |= {name + UPDATE: simulate(updated, ARMS[name]) for name in (KEY_RULE, FOUR_TRANSLATORS)}
    blocks = {"fleet": page.table(HEADINGS, _rows(results)), "targets": page.table(("", "figure"), _targets(results))}
    mixed = replace(scenario, one_shots_per_s=ONE_SHOTS_PER_S)
    blocks["mix"] = page.table(HEADINGS, _rows({name: simulate(mixed, arm) for name, arm in MIX_ARMS.items()}))
    blocks["prewarm"] = page.table(PREWARM_HEADINGS, _prewarm_rows(replace(scenario, thinks=THINKS)))
    for name in TRACES:
        blocks[name] = page.table(HEADINGS, _rows(_replays(name)))
    print("\n".join(blocks.values()))
    if scenario == Scenario():
        page.write(PAGE, blocks)


def _replays(name: str) -> dict[str, Result]:
    """Replays a trace with all ways of routing but that by a key, which traces do not have."""
    lines = traces.load(name)
    arms = {arm: make for arm, make in ARMS.items() if arm != KEY_RULE}
    return {arm: replay(TRACE_FLEET, make, lines, speed=TRACE_SPEED) for arm, make in arms.items()}


def _rows(results: Mapping[str, Result]) -> list[list[str]]:
    rows = [[name, *_figures(result)] for name, result in results.items()]
    possible = results.get(FOUR_TRANSLATORS, list(results.values())[-1]).possible
    return [*rows, ["possible: one cache without a limit", f"{100 * possible:.1f}", "", "", "", ""]]


def _figures(result: Result) -> list[str]:
    return [
        f"{100 * result.hit:.1f}",
        f"{result.uncached_per_turn:,.0f}",
        f"{result.first_token_ms(0.5):,.0f}",
        f"{result.first_token_ms(0.95):,.0f}",
        f"{result.imbalance:.2f}",
    ]


def _prewarm_rows(scenario: Scenario) -> list[list[str]]:
    """Of a template that leaves out reasoning: without and with the next prompt read in advance."""
    results = {
        name: simulate(replace(scenario, prewarms=prewarms), ARMS[FOUR_TRANSLATORS])
        for name, prewarms in (("prompts are read when they come", False), ("the next prompt is read in advance", True))
    }
    return [
        [
            name,
            *_figures(result)[:2],
            f"{result.prewarmed_tokens / result.turns:,.0f}",
            f"{result.human_first_token_ms(0.5):,.0f}",
            f"{result.human_first_token_ms(0.95):,.0f}",
            f"{result.first_token_ms(0.95):,.0f}",
        ]
        for name, result in results.items()
    ]


def _targets(results: Mapping[str, Result]) -> list[list[str]]:
    tree, key, updated = results[FOUR_TRANSLATORS], results[KEY_RULE], results[FOUR_TRANSLATORS + UPDATE]
    hits = [result.hit for name, result in results.items() if name.startswith("Antiphon") and UPDATE not in name]
    return [
        ["hits of what is possible, 4 translators", f"{100 * tree.hit / tree.possible:.1f} %"],
        ["spread of the hit rate over the rows of Antiphon", f"{100 * (max(hits) - min(hits)):.1f} points"],
        ["uncached tokens, of those with a key alone", f"{tree.uncached_tokens / key.uncached_tokens:.2f}"],
        ["first token p95, of that with a key alone", f"{tree.first_token_ms(0.95) / key.first_token_ms(0.95):.2f}"],
        [
            "hits while replicas stop in turn, of those without",
            f"{100 * updated.hit / tree.hit:.1f} %",
        ],
        ["turns that failed", str(sum(result.failed for result in results.values()))],
    ]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=Scenario().seed)
    parser.add_argument("--sessions", type=int, default=Scenario().sessions)
    return parser.parse_args()


if __name__ == "__main__":
    main()
