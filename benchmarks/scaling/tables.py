"""Computes the tables of docs/explain/scaling.md and k8s/README.md that follow from the costs alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.scaling import closed_forms, sizing
from benchmarks.scaling.costs import Costs, entries
from benchmarks.scaling.page import table
from benchmarks.scaling.sizing import PLAN, STEPS, Sizing, Step, Workload

PARTS = ("edges", "translators", "stores", "database")
POD_STREAMS = (50, 500, 2_000, 10_000)
SPACE_GB = 1_000
DATABASE_CORES = {"sqlite": 1, "postgres": 16, "redis": 1, "cluster": 18}
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis", "cluster": "Redis Cluster"}


def blocks(costs: Costs, workload: Workload) -> Mapping[str, str]:
    return {
        "costs": _costs(),
        "steps": _steps(costs, workload),
        "parts": _parts(costs, workload),
        "first": _first(costs, workload),
        "backends": _backends(costs, workload),
        "sensitivity": _sensitivity(costs, workload),
        "sizes": _sizes(costs, workload),
    }


def _costs() -> str:
    rows = [[key, f"{entry['value']:g}", entry["unit"], entry["source"]] for key, entry in entries().items()]
    return table(["figure", "value", "unit", "source"], rows)


def _steps(costs: Costs, workload: Workload) -> str:
    rows = [_step_cells(sizing.size(step, costs, workload)) for step in STEPS]
    return table(
        ["sessions", "backend", "streams at once", "turns/s", "tokens/s", "hot, all copies", "grows by a day"], rows
    )


def _step_cells(found: Sizing) -> list[str]:
    return [
        f"{found.step.sessions:,}",
        found.step.label,
        number(found.streams),
        number(found.turns_per_s),
        number(found.tokens_per_s),
        f"{number(found.hot_gb)} GB",
        f"{number(found.grown_gb_per_day)} GB",
    ]


def _parts(costs: Costs, workload: Workload) -> str:
    rows = [_part_cells(sizing.size(step, costs, workload)) for step in STEPS]
    return table(["sessions", *(f"{part}: cores busy" for part in PARTS), "memory"], rows)


def _part_cells(found: Sizing) -> list[str]:
    head = f"{found.step.sessions:,}"
    if not found.step.is_split:
        return [head, f"one process: {number(found.edge_cores)}", "-", "-", "-", f"{number(found.memory_gb)} GB"]
    return [
        head,
        f"{found.edges}: {number(found.edge_cores)}",
        f"{found.translators}: {number(found.translator_cores)}",
        f"{found.stores}: {number(found.store_cores)}",
        number(found.database_cores),
        f"{number(found.memory_gb)} GB",
    ]


def _first(costs: Costs, workload: Workload) -> str:
    rows = []
    for step in STEPS:
        found = sizing.size(step, costs, workload)
        full = {"edges" if step.is_split else "the process": found.edges / found.edge_cores}
        if step.is_split:
            full |= {"translators": found.translators / found.translator_cores}
            full |= {"stores": found.stores / found.store_cores}
        days = SPACE_GB / found.grown_gb_per_day
        name = min(full, key=lambda part: full[part])
        others = ", ".join(f"{part} at {each:.1f} x" for part, each in full.items() if part != name) or "-"
        rows.append([f"{step.sessions:,}", f"{name}, at {full[name]:.1f} x the load", others, number(days)])
    return table(["sessions", "processor: full first", "then", f"days until {SPACE_GB:,} GB are full"], rows)


def _backends(costs: Costs, workload: Workload) -> str:
    rows = []
    for backend, cores in DATABASE_CORES.items():
        found = sizing.limits(backend, costs, workload, cores=cores, space_gb=SPACE_GB)
        rows.append([NAMES[backend], *(f"{limit.what}: {_round(limit.sessions)}" for limit in found)])
        rows[-1] += ["-"] * (4 - len(rows[-1]))
        service_s = costs.backends[backend].database_ms / 2e3
        wait_ms = closed_forms.md1_wait_s(PLAN / service_s, service_s) * 1e3 if service_s else 0.0
        rows[-1].append(number(wait_ms) if service_s else "-")
    return table(["backend", "first", "second", "third", f"mean wait at {PLAN:.0%}, ms"], rows)


def _sensitivity(costs: Costs, workload: Workload) -> str:
    step = STEPS[-1]
    variants: Sequence[tuple[str, Costs, Workload]] = (
        ("as above", costs, workload),
        ("think time 30 s", costs, replace(workload, think_s=30)),
        ("think time 120 s", costs, replace(workload, think_s=120)),
        ("answers of 100 tokens", costs, replace(workload, tokens=100)),
        ("answers of 800 tokens", costs, replace(workload, tokens=800)),
        ("100 tokens a second", costs, replace(workload, tokens_per_s=100)),
        ("4 tokens in each message", _batched(costs, 4), workload),
        ("all processor times 25 % less", _scaled(costs, 0.75), workload),
        ("all processor times 50 % more", _scaled(costs, 1.5), workload),
    )
    rows = []
    for name, each, work in variants:
        found = sizing.size(step, each, work)
        busy = found.edge_cores + found.translator_cores + found.store_cores
        rows.append([name, number(found.streams), number(busy), number(found.database_cores)])
    return table(["1,000,000 sessions", "streams at once", "cores of Antiphon, busy", "of the database"], rows)


def _scaled(costs: Costs, by: float) -> Costs:
    edge, translator = (
        replace(part, read_us=part.read_us * by, token_us=part.token_us * by, turn_ms=part.turn_ms * by)
        for part in (costs.edge, costs.translator)
    )
    backends = {
        name: replace(each, store_ms=each.store_ms * by, database_ms=each.database_ms * by)
        for name, each in costs.backends.items()
    }
    return replace(costs, edge=edge, translator=translator, rpc_ms=costs.rpc_ms * by, backends=backends)


def _batched(costs: Costs, tokens: int) -> Costs:
    """Returns the costs for reads of several tokens, whose fixed cost is shared."""
    edge, translator = (replace(part, read_us=part.read_us / tokens) for part in (costs.edge, costs.translator))
    return replace(costs, edge=edge, translator=translator)


def _sizes(costs: Costs, workload: Workload) -> str:
    rows = []
    for streams in POD_STREAMS:
        sessions = round(streams / workload.streams(1))
        found = sizing.size(Step(sessions, "postgres", "", 1), costs, workload)
        database = max(1, round(found.database_cores / PLAN + 0.5))
        store = "1, SQLite" if streams <= 50 else f"{found.stores}, PostgreSQL or Redis"
        rows.append(
            [
                f"{streams:,}",
                _round(sessions),
                str(1 if streams <= 50 else found.edges),
                str(1 if streams <= 50 else found.translators),
                store,
                "-"
                if streams <= 50
                else f"{database} core{'s' * (database > 1)}, {number(found.grown_gb_per_day)} GB a day",
            ]
        )
    return table(["streams at once", "sessions", "edge", "translator", "store", "database"], rows)


def number(value: float) -> str:
    """Formats a number with two significant digits, or as a whole number."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{float(f'{value:.2g}'):g}"


def _round(sessions: float) -> str:
    return f"{float(f'{sessions:.2g}'):,.0f}"


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"
