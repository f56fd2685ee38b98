"""A real Prometheus reads four processes of Antiphon's under load: every panel and every recorded rule has data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from k8s.components.grafana.panels import DASHBOARDS
from tests.support.monitored_system import MonitoredSystem, load, monitored_system, rules
from tests.support.waiting import WAIT_MAX_S

# Series that begin with what this load does not have: the failure of one of two processes, or little memory.
ACCIDENTS = (
    "antiphon_takeovers_total",
    "antiphon_engine_migrations_total",
    "antiphon_engine_endpoint_evictions_total",
    "antiphon_memory_returned_total",
)


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[MonitoredSystem]:
    async with monitored_system(tmp_path, requests_per_minute=60) as running:
        yield running


async def test_every_panel_and_every_recorded_rule_has_data(system: MonitoredSystem) -> None:
    running = asyncio.create_task(load(system, pause_s=0.25))  # Prometheus reads once a second
    queries = [
        *_panels(),
        *(rule["expr"] for group in rules()["groups"] for rule in group["rules"] if "record" in rule),
    ]
    missing = set(queries)
    try:
        async with asyncio.timeout(3 * WAIT_MAX_S):
            while missing and not running.done():
                missing = {query for query in missing if not await system.prometheus.series(query)}
                await asyncio.sleep(0.5)
    except TimeoutError:
        pass
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert not missing


def _panels() -> list[str]:
    """The queries of all panels, for one namespace and a short time."""
    queries = [query for panels in DASHBOARDS.values() for panel in panels for query, _ in panel.queries]
    plain = [query.replace("$__rate_interval", "30s").replace("$namespace", ".*") for query in queries]
    return [query for query in plain if not any(name in query for name in ACCIDENTS)]
