"""The resources that the workers of one service share, or divide among themselves.

ports            shared by SO_REUSEPORT: the kernel gives each new connection to one worker
sealing keys     shared, so that each worker opens content that another one sealed
rate limits      counted in the store, or divided among all workers of all edges
memory           divided: each worker stops accepting turns before its part is full
the store        must be a database that several processes may open: memory:// belongs to one process
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from antiphon.settings import Settings
from antiphon_core.config import SettingsError
from antiphon_core.process_load import available_bytes, bytes_for_turns

_ALONE = (
    "Run the store as a process of its own (antiphon serve --target=store), and the workers with ANTIPHON_EDGE_STORE"
)


def require_shareable(settings: Settings, targets: Collection[str]) -> None:
    """SettingsError: the workers could not share the store, or would exceed the rate limits; with the remedy."""
    if "store" not in targets:
        return
    scheme = settings.store.url.partition(":")[0]
    if scheme == "memory":
        raise SettingsError(
            f"{settings.serve.workers} workers cannot share memory://: each would have a store of its own. {_ALONE}, "
            "or set ANTIPHON_STORE_URL to a database."
        )
    if scheme == "sqlite" and "edge" in targets and _are_limits_in_the_store(settings):
        raise SettingsError(
            f"Over SQLite each of {settings.serve.workers} workers would allow as much as all of the rate limits say: "
            f"they are counted in the process. {_ALONE}, or set ANTIPHON_EDGE_SHARED_LIMITS=false, so that each "
            "enforces its part."
        )


def of_one_worker(settings: Settings) -> Settings:
    """The settings of each worker: its part of the memory, and as `replicas` the number of all workers of all edges, by
    which an edge divides the limits that it enforces by itself."""
    count, edge, worker = settings.serve.workers, settings.edge, settings.worker
    edge_bytes = (edge.memory_limit_bytes or available_bytes()) // count
    worker_bytes = worker.memory_limit_bytes // count or edge_bytes
    turns_bytes = (settings.translator.turns_bytes_max or bytes_for_turns()) // count
    return replace(
        settings,
        edge=replace(
            edge,
            replicas=edge.replicas * count,
            memory_limit_bytes=edge_bytes,
            turns_bytes_max=edge.turns_bytes_max // count,
        ),
        translator=replace(settings.translator, turns_bytes_max=turns_bytes),
        worker=replace(worker, memory_limit_bytes=worker_bytes),
    )


def _are_limits_in_the_store(settings: Settings) -> bool:
    edge = settings.edge
    limits = (edge.requests_per_minute, edge.tokens_per_minute, edge.streams_per_tenant)
    return edge.shared_limits and not edge.store and any(limits)
