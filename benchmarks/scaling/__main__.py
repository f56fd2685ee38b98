"""Computes the sizes from one laptop to a million sessions, a simulation, and the effect of a lost zone, from measured
costs.

make bench-scaling                                                # writes docs/explain/scaling.md and its charts
make bench-scaling ARGS='--gateway build/bench-gateway.json'      # with the figures of another `make bench-gateway`
make bench-scaling ARGS=--measure                                 # measures what a turn costs each backend again
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.scaling import charts, costs, page, sizing, streams, tables, validation
from benchmarks.scaling.charts import Axes
from benchmarks.scaling.costs import Costs
from benchmarks.scaling.fleet import Fleet, Report
from benchmarks.scaling.sizing import STEPS, Workload
from benchmarks.scaling.tables import number

ROOT = Path(__file__).parents[2]
PAGE, PODS = ROOT / "docs/explain/scaling.md", ROOT / "k8s/README.md"
CHARTS = ROOT / "docs/explain/scaling"
SEED = 1
STREAMS = (20, 40, 60, 80, 100, 110, 120, 130, 140, 160)
FAILS_AT_S, SECONDS = 60.0, 140.5
LATER_S = 40


def main() -> None:
    options = _parse()
    if options.gateway is not None:
        found = costs.of_gateway(json.loads(options.gateway.read_text("utf-8")))
        costs.update(found, f"make bench-gateway, {options.gateway.name}")
    if options.measure:
        from benchmarks.scaling import store_costs  # imported here: measuring starts databases

        costs.update(store_costs.measured(), "make bench-scaling ARGS=--measure")
    loaded, workload = costs.load(), Workload()
    CHARTS.mkdir(exist_ok=True)
    blocks = {
        **tables.blocks(loaded, workload),
        "validation": _validation(loaded),
        "late": _late(loaded),
        "zone": _zone(loaded, workload),
    }
    _cores_chart(loaded, workload)
    for path in (PAGE, PODS):
        page.write(path, blocks)
    print("\n".join(blocks[name] for name in ("validation", "steps", "parts", "late", "zone")))
    if not all(check.holds for check in validation.checks(loaded)):
        sys.exit("the simulation does not reproduce what was measured")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", type=Path, metavar="FILE", help="JSON of a run of make bench-gateway")
    parser.add_argument("--measure", action="store_true", help="measure the turns of each backend first")
    return parser.parse_args()


def _validation(loaded: Costs) -> str:
    rows = [
        [
            check.what,
            check.unit,
            number(check.measured),
            number(check.simulated),
            f"{check.error:+.0%}",
            "-" if check.tolerance is None else f"{check.tolerance:.0%}",
        ]
        for check in validation.checks(loaded)
    ]
    return page.table(["one process on two cores", "unit", "measured", "simulated", "difference", "tolerance"], rows)


def _late(loaded: Costs) -> str:
    """Returns a table of the delay of tokens by number of streams, on one translator and one edge."""
    rows, gaps, first = [], [], []
    for count in STREAMS:
        seen = streams.simulate([loaded.translator, loaded.edge], count, seconds=8, seed=SEED)
        gap_ms, first_ms = streams.percentile_ms(seen.gaps_s, 99), streams.percentile_ms(seen.first_s, 99)
        rows.append([str(count), *(f"{busy:.0%}" for busy in seen.busy), f"{gap_ms:.1f}", f"{first_ms:.1f}"])
        gaps.append((float(count), gap_ms))
        first.append((float(count), first_ms))
    axes = Axes(
        "Streams on one translator and one edge", "streams at once, 50 tokens a second each", "ms, p99", ticks_across=7
    )
    _write("late.svg", charts.lines(axes, {"between two tokens": gaps, "added to the first token": first}))
    headings = ["streams", "translator busy", "edge busy", "between two tokens, p99 ms", "first token, added, p99 ms"]
    return page.table(headings, rows)


def _zone(loaded: Costs, workload: Workload) -> str:
    rows = []
    timelines: dict[str, list[tuple[float, float]]] = {}
    for step in (step for step in STEPS if step.is_split):
        for takes_database in (False, True):
            fleet = Fleet(
                sizing.size(step, loaded, workload),
                loaded,
                workload,
                seed=SEED,
                fails_at_s=FAILS_AT_S,
                takes_database=takes_database,
            )
            report = fleet.run(SECONDS)
            rows.append([f"{step.sessions:,}", "lost" if takes_database else "not lost", *_zone_cells(report)])
            if step is STEPS[-1]:
                name = "with its databases" if takes_database else "without its databases"
                timelines[name] = [(at_s, fullest) for at_s, _, fullest in report.streams if at_s >= FAILS_AT_S - 20]
    axes = Axes("A third of a million sessions' processes is lost at 60 s", "seconds", "load of the fullest process")
    _write("zone.svg", charts.lines(axes, timelines))
    headings = [
        "sessions",
        "its databases",
        "median load before",
        "fullest before",
        "median, most after",
        "median, last 40 s",
        "fullest, most after",
        "s above 1",
        "begun again",
        "went on elsewhere",
        "longest begin, s",
    ]
    return page.table(headings, rows)


def _zone_cells(report: Report) -> list[str]:
    before = [(median, most) for at_s, median, most in report.streams if FAILS_AT_S / 2 < at_s < FAILS_AT_S]
    after = [(median, most) for at_s, median, most in report.streams if at_s > FAILS_AT_S]
    seconds_full = sum(median > 1 for median, _ in after)
    return [
        f"{max(median for median, _ in before):.2f}",
        f"{max(most for _, most in before):.2f}",
        f"{max(median for median, _ in after):.2f}",
        f"{statistics.mean(median for median, _ in after[-LATER_S:]):.2f}",
        f"{max(most for _, most in after):.2f}",
        str(seconds_full),
        f"{report.begun_again / report.completed:.2%}",
        f"{report.moved / report.completed:.2%}",
        number(max(took_s for _, took_s in report.begin_s)),
    ]


def _cores_chart(loaded: Costs, workload: Workload) -> None:
    groups: dict[str, Mapping[str, float]] = {}
    for step in (step for step in STEPS if step.is_split):
        found = sizing.size(step, loaded, workload)
        groups[f"{step.sessions:,}"] = {
            "edges": found.edge_cores * 1e5 / step.sessions,
            "translators": found.translator_cores * 1e5 / step.sessions,
            "stores": found.store_cores * 1e5 / step.sessions,
            "database": found.database_cores * 1e5 / step.sessions,
        }
    axes = Axes("Cores that are busy, for each 100,000 sessions", "sessions", "cores")
    _write("cores.svg", charts.bars(axes, groups))


def _write(name: str, svg: str) -> None:
    (CHARTS / name).write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
