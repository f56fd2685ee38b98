from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.settings import ServeSettings, Settings
from antiphon.workers.sharing import of_one_worker, require_shareable
from antiphon_core.config import SettingsError
from antiphon_core.process_load import available_bytes
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_store.settings import StoreSettings
from tests.support.local_settings import settings

SQLITE = "sqlite:///store.db"
ALL = ("store", "translator", "edge", "worker")


def with_store(url: str, edge: EdgeSettings | None = None) -> Settings:
    return replace(settings(edge), store=StoreSettings(url=url), serve=ServeSettings(workers=3))


def test_a_store_in_memory_is_refused_and_what_to_do_is_said() -> None:
    with pytest.raises(SettingsError) as caught:
        require_shareable(with_store("memory://"), ALL)
    for word in ("3 workers cannot share memory://", "serve --target=store", "ANTIPHON_EDGE_STORE", "_STORE_URL"):
        assert word in str(caught.value)


def test_workers_without_a_store_share_everything() -> None:
    require_shareable(with_store("memory://"), ("edge", "translator", "worker"))


@pytest.mark.parametrize("url", [SQLITE, "redis://h", "postgresql://h/d"])
def test_a_database_is_shared(url: str) -> None:
    require_shareable(with_store(url), ALL)


def test_rate_limits_that_sqlite_would_count_in_each_process_are_refused() -> None:
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
def test_rate_limits_that_are_counted_for_all_are_fine(url: str, edge: EdgeSettings) -> None:
    require_shareable(with_store(url, edge), ALL)


def test_a_worker_enforces_its_part_among_all_workers_of_all_edges() -> None:
    loaded = with_store(SQLITE, EdgeSettings(replicas=2, memory_limit_bytes=900))
    assert of_one_worker(loaded).edge == replace(loaded.edge, replicas=6, memory_limit_bytes=300)


def test_workers_share_the_memory_of_their_container() -> None:
    loaded = with_store(SQLITE, EdgeSettings())
    assert of_one_worker(loaded).edge.memory_limit_bytes == available_bytes() // 3
    assert of_one_worker(loaded).worker.memory_limit_bytes == available_bytes() // 3


def test_a_limit_of_memory_for_background_work_is_divided_too() -> None:
    loaded = replace(with_store(SQLITE, EdgeSettings()), worker=WorkerSettings(memory_limit_bytes=600))
    assert of_one_worker(loaded).worker.memory_limit_bytes == 200
