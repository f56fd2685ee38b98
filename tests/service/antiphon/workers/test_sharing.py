from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.settings import ServeSettings, Settings
from antiphon.workers.sharing import of_one_worker, require_shareable
from antiphon_core.config import SettingsError
from antiphon_core.process_load import available_bytes, bytes_for_turns
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_store.settings import StoreSettings
from tests.support.local_settings import settings

SQLITE = "sqlite:///store.db"
ALL = ("store", "translator", "edge", "worker")


def with_store(url: str, edge: EdgeSettings | None = None) -> Settings:
    return replace(settings(edge), store=StoreSettings(url=url), serve=ServeSettings(workers=3))


def test_workers_with_a_memory_store_are_refused_with_a_remedy() -> None:
    with pytest.raises(SettingsError) as caught:
        require_shareable(with_store("memory://"), ALL)
    for word in ("3 workers cannot share memory://", "serve --target=store", "ANTIPHON_EDGE_STORE", "_STORE_URL"):
        assert word in str(caught.value)


def test_workers_without_the_store_target_are_permitted() -> None:
    require_shareable(with_store("memory://"), ("edge", "translator", "worker"))


@pytest.mark.parametrize("url", [SQLITE, "redis://h", "postgresql://h/d"])
def test_workers_with_a_database_are_permitted(url: str) -> None:
    require_shareable(with_store(url), ALL)


def test_rate_limits_counted_per_process_on_sqlite_are_refused() -> None:
    with pytest.raises(SettingsError, match="each of 3 workers would allow as much as all of the rate limits say"):
        require_shareable(with_store(SQLITE, EdgeSettings(requests_per_minute=60)), ALL)


@pytest.mark.parametrize(
    ("url", "edge"),
    [
        (SQLITE, EdgeSettings(requests_per_minute=60, shared_limits=False)),
        (SQLITE, EdgeSettings(requests_per_minute=60, store="h:1")),
        ("redis://h", EdgeSettings(requests_per_minute=60)),
    ],
)
def test_rate_limits_that_hold_for_all_workers_are_permitted(url: str, edge: EdgeSettings) -> None:
    require_shareable(with_store(url, edge), ALL)


def test_settings_of_one_worker_count_all_workers_of_all_edges() -> None:
    loaded = with_store(SQLITE, EdgeSettings(replicas=2, memory_limit_bytes=900))
    assert of_one_worker(loaded).edge == replace(loaded.edge, replicas=6, memory_limit_bytes=300)


def test_the_bytes_of_turns_are_divided_by_the_workers() -> None:
    loaded = with_store(SQLITE, EdgeSettings(turns_bytes_max=900))
    one = of_one_worker(loaded)
    assert one.edge.turns_bytes_max == 300
    assert one.translator.turns_bytes_max == bytes_for_turns() // 3


def test_the_memory_of_the_container_is_divided_by_the_workers() -> None:
    loaded = with_store(SQLITE, EdgeSettings())
    assert of_one_worker(loaded).edge.memory_limit_bytes == available_bytes() // 3
    assert of_one_worker(loaded).worker.memory_limit_bytes == available_bytes() // 3


def test_the_memory_limit_of_background_work_is_divided_by_the_workers() -> None:
    loaded = replace(with_store(SQLITE, EdgeSettings()), worker=WorkerSettings(memory_limit_bytes=600))
    assert of_one_worker(loaded).worker.memory_limit_bytes == 200
