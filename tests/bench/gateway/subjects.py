"""The subjects of a measurement: a running server, the address where it listens, and its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Column(StrEnum):
    """A column of the table."""

    ENGINE = "engine"
    """The engine called directly, or the least that the same work costs."""
    PEER = "peer"
    ONE = "one process"
    SPLIT = "split"


class Route(StrEnum):
    """How a request reaches an engine. Each is a model of its own in Antiphon."""

    CHAT = "chat"
    IDS = "ids"
    PACED_IDS = "paced-ids"
    BATCHED_IDS = "batched-ids"


@dataclass(frozen=True, slots=True)
class Subject:
    """A server that answers requests. `parts` are the process ids of what it consists of, by name."""

    column: Column
    host: str
    port: int
    parts: Mapping[str, int]
    model: str | None = None
    """The name of the subject's only model; without it, models have the names of their routes."""
    path: str = "/v1/responses"
    is_engine: bool = False
    """It speaks chat completions."""

    def name_of(self, route: Route) -> str:
        return self.model or route.value
