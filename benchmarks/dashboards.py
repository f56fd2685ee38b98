"""Draws pictures of the dashboards: `make dashboard-pictures` runs Antiphon under load, sends each panel's queries to
Prometheus and draws the series, one sheet for each dashboard.

On a cluster Grafana draws the queries. Neither Debian nor a package registry has Grafana, so it is not run here.
"""

from __future__ import annotations

import asyncio
import math
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.scaling.charts import HEIGHT, WIDTH, Axes, Point, lines
from k8s.components.grafana.panels import DASHBOARDS, Panel
from tests.support.monitored_system import MonitoredSystem, load, monitored_system
from tests.support.prometheus_server import Prometheus

FOLDER = Path(__file__).parents[1] / "docs/images/dashboards"
LOAD_S = 120
LOADERS = 6
REQUESTS_PER_MINUTE = 900
STEP_S = 2
WINDOW = "20s"  # in place of Grafana's $__rate_interval
COLUMNS, GAP = 3, 16
SERIES_MAX = 4
UNITS = {"s": "seconds", "reqps": "a second", "ops": "a second", "percentunit": "part of 1", "short": "count"}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with monitored_system(Path(folder), requests_per_minute=REQUESTS_PER_MINUTE) as system:
            begun_s = time.time()
            await _under_load(system)
            for name, panels in DASHBOARDS.items():
                drawn = [await _drawn(panel, system.prometheus, begun_s) for panel in panels]
                (FOLDER / f"{name}.svg").write_text(sheet(drawn), encoding="utf-8")


async def _under_load(system: MonitoredSystem) -> None:
    loaders = [asyncio.create_task(load(system, str(number))) for number in range(LOADERS)]
    done, _ = await asyncio.wait(loaders, timeout=LOAD_S)
    for task in loaders:
        task.cancel()
    await asyncio.wait(loaders)
    for task in done:
        task.result()


async def _drawn(panel: Panel, prometheus: Prometheus, begun_s: float) -> str:
    """Draws the largest series of a panel over the seconds of the load."""
    found: dict[str, Sequence[Point]] = {}
    for query, legend in panel.queries:
        plain = query.replace("$__rate_interval", WINDOW).replace("$namespace", ".*")
        for series in await prometheus.ranges(plain, start_s=begun_s, end_s=begun_s + LOAD_S, step_s=STEP_S):
            points = [(at - begun_s, float(value)) for at, value in series["values"] if math.isfinite(float(value))]
            if points:
                found[labelled(legend, series["metric"]) or panel.title] = points
    axes = Axes(panel.title, "seconds under load", UNITS.get(panel.unit, panel.unit))
    largest = sorted(found, key=lambda name: -max(y for _, y in found[name]))[:SERIES_MAX]
    return lines(axes, {name: found[name] for name in largest} or {"none": [(0, 0), (LOAD_S, 0)]})


def labelled(legend: str, labels: Mapping[str, str]) -> str:
    """Fills in the {{label}}s of a legend."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend).strip()


def sheet(charts: Sequence[str]) -> str:
    """Puts charts side by side into one picture."""
    rows = math.ceil(len(charts) / COLUMNS)
    wide, high = COLUMNS * (WIDTH + GAP), rows * (HEIGHT + GAP)
    placed = (
        chart.replace(
            "<svg ", f'<svg x="{place % COLUMNS * (WIDTH + GAP)}" y="{place // COLUMNS * (HEIGHT + GAP)}" '
            f'width="{WIDTH}" height="{HEIGHT}" ', 1,
        )
        for place, chart in enumerate(charts)
    )  # fmt: skip
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}">'
    return "\n".join([head, f'<rect width="{wide}" height="{high}" fill="#f6f8fa"/>', *placed, "</svg>", ""])


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    sys.exit(asyncio.run(main()))
