"""The subjects of a measurement: a running server, the address where it listens, and its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Column(StrEnum):
    """A column of the table."""

    ENGINE = "engine"
    """The engine called directly, or the least possible cost of the work."""
    PEER = "peer"
    ONE = "one process"
    SPLIT = "split"


class Route(StrEnum):
    """The way of a request to an engine. Each route is a model of Antiphon."""

    CHAT = "chat"
    IDS = "ids"
    PACED_IDS = "paced-ids"
    IDS_EACH_80_MS = "ids-80-ms"
    IDS_EACH_320_MS = "ids-320-ms"
    BATCHED_IDS = "batched-ids"


@dataclass(frozen=True, slots=True)
class Subject:
    """A server that answers requests. `parts` are the ids of its processes, by name."""

    column: Column
    host: str
    port: int
    parts: Mapping[str, int]
    model: str | None = None
    """The name of the subject's only model; without it, models have the names of their routes."""
    path: str = "/v1/responses"
    is_engine: bool = False
    """Whether the subject serves chat completions only."""

    def name_of(self, route: Route) -> str:
        return self.model or route.value
