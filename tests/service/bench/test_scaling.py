"""Tests the model of docs/explain/scaling.md: its figures, its sizes, its validation, and the documents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scaling import charts, costs, page, sizing, streams, tables, validation
from benchmarks.scaling.charts import Axes
from benchmarks.scaling.costs import Part
from benchmarks.scaling.fleet import Fleet
from benchmarks.scaling.sizing import PLAN, STEPS, Step, Workload

ROOT = Path(__file__).parents[3]
COSTS, WORKLOAD = costs.load(), Workload()
SMALL = Step(3_000, "postgres", "", 1)


def test_every_figure_has_a_unit_and_a_source() -> None:
    assert all(entry["unit"] and entry["source"] and entry["value"] >= 0 for entry in costs.entries().values())


def test_a_report_of_the_gateway_replaces_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(costs.FILE.read_text("utf-8"), "utf-8")
    rows = [
        {"key": "short", "values": {"one process": 9.0, "split": 8.0}, "parts": {"split": {"edge": 5.0, "store": 3.0}}}
    ]
    found = costs.of_gateway({"rows": rows}, file)
    assert found == {"short_edge_ms": 5.0, "short_store_ms": 3.0, "short_one_ms": 9.0}
    costs.update(found, "a later run", file)
    entry = costs.entries(file)["short_one_ms"]
    assert (entry["value"], entry["source"], entry["unit"]) == (9.0, "a later run", "ms")
    assert json.loads(file.read_text("utf-8")).keys() == costs.entries().keys()


def test_the_cost_of_a_paced_token_matches_the_measurement() -> None:
    figures = costs.figures()
    turn_us = COSTS.translator.turn_ms * 1e3 / costs.STREAM_TOKENS
    assert COSTS.translator.paced_us + turn_us == pytest.approx(figures["ids_translator_paced_us"])


def test_the_simulated_rate_at_full_speed_matches_the_measurement() -> None:
    """`make bench-gateway` measured the rate; the model is fed with processor times only."""
    check = validation.throughput(COSTS)
    assert abs(check.error) <= validation.TOLERANCE
    slower = replace(COSTS, chat_process=Part(0.0, COSTS.chat_process.token_us * 2, COSTS.chat_process.turn_ms))
    assert not validation.throughput(slower).holds


def test_a_simulation_is_the_same_with_the_same_seed() -> None:
    runs = [streams.simulate([COSTS.translator, COSTS.edge], 8, seconds=1, seed=seed) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_simulated_utilisation_matches_the_arithmetic() -> None:
    count = 40
    seen = streams.simulate([COSTS.translator, COSTS.edge], count, seconds=8, seed=1)
    for part, busy in zip((COSTS.translator, COSTS.edge), seen.busy, strict=True):
        assert busy == pytest.approx(seen.rate * (part.paced_us / 1e6 + part.turn_ms / 1e3 / streams.TOKENS), rel=0.03)


def test_tokens_come_late_when_a_core_is_full_and_not_before() -> None:
    early, late = (streams.simulate([COSTS.translator, COSTS.edge], count, seconds=3, seed=1) for count in (80, 160))
    assert streams.percentile_ms(early.gaps_s, 99) < 25 < streams.percentile_ms(late.gaps_s, 99)


@pytest.mark.parametrize("step", STEPS)
def test_no_process_is_planned_beyond_its_part_of_a_core(step: Step) -> None:
    found = sizing.size(step, COSTS, WORKLOAD)
    assert found.edge_cores <= PLAN * found.edges
    assert found.translator_cores <= PLAN * max(found.translators, 1)
    assert found.store_cores <= PLAN * max(found.stores, 1)
    if step.is_split:
        assert found.edges % sizing.ZONES == found.translators % sizing.ZONES == found.stores % sizing.ZONES == 0


def test_the_number_of_streams_follows_littles_law() -> None:
    assert WORKLOAD.streams(1_000) == pytest.approx(1_000 * WORKLOAD.turn_s / (WORKLOAD.turn_s + WORKLOAD.think_s))


def test_cores_grow_in_proportion_to_sessions() -> None:
    small, large = (sizing.size(replace(SMALL, sessions=sessions), COSTS, WORKLOAD) for sessions in (10_000, 100_000))
    assert large.translator_cores == pytest.approx(10 * small.translator_cores)


def test_disk_space_is_the_first_limit_of_each_backend() -> None:
    for backend in costs.BACKENDS:
        first = sizing.limits(backend, COSTS, WORKLOAD, cores=16, space_gb=1_000)[0]
        assert first.what.startswith("space")


def test_a_fleet_without_a_failure_restarts_and_moves_no_turn() -> None:
    report = Fleet(sizing.size(SMALL, COSTS, WORKLOAD), COSTS, WORKLOAD, seed=1).run(60.0)
    assert report.completed / 60 == pytest.approx(WORKLOAD.turns_per_s(SMALL.sessions), rel=0.12)
    assert (report.begun_again, report.moved) == (0, 0)


def test_a_lost_zone_restarts_and_moves_a_share_of_the_turns() -> None:
    sized = sizing.size(SMALL, COSTS, WORKLOAD)
    report = Fleet(sized, COSTS, WORKLOAD, seed=1, fails_at_s=30.0).run(60.0)
    a_third = sized.streams / sizing.ZONES
    assert report.begun_again == pytest.approx(a_third, rel=0.5)
    assert report.moved == pytest.approx(a_third * 2 / 3, rel=0.5)  # on edges that survive
    assert max(took_s for _, took_s in report.begin_s) < 1


def test_turns_wait_for_a_database_that_fails_over() -> None:
    sized = sizing.size(SMALL, COSTS, WORKLOAD)
    report = Fleet(sized, COSTS, WORKLOAD, seed=1, fails_at_s=30.0, takes_database=True).run(60.0)
    assert 9 < max(took_s for _, took_s in report.begin_s) < 11


def test_blocks_of_a_document_are_written_and_the_rest_stays() -> None:
    text = "a\n<!-- scaling: x -->\nold\n<!-- /scaling -->\nb\n"
    new = page.written(text, {"x": page.table(["n", "m"], [["1", "2"]])})
    assert new == "a\n<!-- scaling: x -->\n| n | m |\n|---|---:|\n| 1 | 2 |\n<!-- /scaling -->\nb\n"
    assert page.blocks_in(new) == {"x": "| n | m |\n|---|---:|\n| 1 | 2 |\n"}


@pytest.mark.parametrize("document", ["docs/explain/scaling.md", "k8s/README.md"])
def test_tables_in_documents_match_the_costs(document: str) -> None:
    """Compares the tables that are pure arithmetic; `make bench-scaling` writes them."""
    made = tables.blocks(COSTS, WORKLOAD)
    found = page.blocks_in((ROOT / document).read_text("utf-8"))
    compared = found.keys() & made.keys()
    assert compared
    assert {name: found[name] for name in compared} == {name: made[name] for name in compared}


def test_charts_are_drawn_to_scale() -> None:
    drawn = charts.lines(Axes("t", "x", "y", most_up=10), {"a": [(0, 0), (10, 10)]})
    assert 'points="64.0,272.0 704.0,40.0"' in drawn
    assert drawn == charts.lines(Axes("t", "x", "y", most_up=10), {"a": [(0, 0), (10, 10)]})
    assert charts.bars(Axes("t", "x", "y"), {"g": {"a": 1.0, "b<": 2.0}}).count("<rect") == 5


def test_an_axis_ends_at_a_round_number() -> None:
    assert [charts._top(most) for most in (0.9, 1.94, 47.0, 55.0)] == [1.0, 2.0, 50.0, 100.0]
