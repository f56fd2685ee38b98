"""The measured costs in costs.json that the model uses, each with its unit and its source.

Figures of `make bench-gateway` name the row, column and part of their source, so that a later run can replace them.
store_costs.py measures those of `make bench-scaling ARGS=--measure`, and the others are copied from documents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("costs.json")
BACKENDS = ("sqlite", "postgres", "redis", "cluster")


@dataclass(frozen=True, slots=True)
class Part:
    """The costs of one process. `read_us` is the fixed cost of a read, `token_us` the cost of each token in it."""

    read_us: float
    token_us: float
    turn_ms: float

    @property
    def paced_us(self) -> float:
        """The cost of a token that is read alone."""
        return self.read_us + self.token_us


@dataclass(frozen=True, slots=True)
class Backend:
    """A turn's processor time in the store's process and in the database's, and the bytes that a response takes."""

    store_ms: float
    database_ms: float
    response_bytes: float


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything that the model reads."""

    edge: Part
    translator: Part
    one_process: Part
    """Edge, translator and store in one process, for token ids."""
    chat_process: Part
    """Edge, translator and store in one process before a chat server. The validation was measured on this process."""
    rpc_ms: float
    """The cost of a turn's gRPC calls in the store's process."""
    backends: Mapping[str, Backend]
    stream_kb: float
    process_mb: float
    measured: Mapping[str, float]
    """Measured figures that the model does not use: its results are compared with them."""


def load(file: Path = FILE) -> Costs:
    return of_figures(figures(file))


def figures(file: Path = FILE) -> Mapping[str, float]:
    """Returns the values without units and sources."""
    return {key: float(entry["value"]) for key, entry in entries(file).items()}


def entries(file: Path = FILE) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8"))
    return found


def of_figures(value: Mapping[str, float]) -> Costs:
    turns = {part: _turn_ms(value, part) for part in ("edge", "translator", "store", "one")}
    return Costs(
        edge=_part(value, "ids_edge", turns["edge"]),
        translator=_part(value, "ids_translator", turns["translator"]),
        one_process=_part(value, "ids_one", turns["one"]),
        chat_process=_part(value, "chat_one", turns["one"]),
        # The store of that bench uses SQLite; the cost of its backend is counted with the backend.
        rpc_ms=max(turns["store"] - value["store_sqlite_turn_ms"], 0.0),
        backends={
            name: Backend(
                value[f"store_{name}_turn_ms"], value[f"database_{name}_turn_ms"], value[f"response_{name}_bytes"]
            )
            for name in BACKENDS
        },
        stream_kb=value["stream_kb"],
        process_mb=value["process_mb"],
        measured={key.removeprefix("measured_"): each for key, each in value.items() if key.startswith("measured_")},
    )


SHORT_DELTAS = 16
"""The number of deltas of a turn of the workload `short`."""
STREAM_TOKENS = 200
"""The number of tokens of a stream of the other workloads."""


def _turn_ms(value: Mapping[str, float], part: str) -> float:
    """Returns the cost of a turn without its deltas."""
    return max(value[f"short_{part}_ms"] - SHORT_DELTAS * value[f"chat_{part}_full_us"] / 1e3, 0.0)


def _part(value: Mapping[str, float], name: str, turn_ms: float) -> Part:
    """Returns the costs of a part. A read has many tokens at full speed and one token if paced; both figures contain a
    share of the turn."""
    share_us = turn_ms * 1e3 / STREAM_TOKENS
    token_us = max(value[f"{name}_full_us"] - share_us, 1.0)
    return Part(max(value[f"{name}_paced_us"] - share_us - token_us, 0.0), token_us, turn_ms)


def update(found: Mapping[str, float], source: str, file: Path = FILE) -> None:
    """Replaces figures and their source. KeyError: a figure is unknown."""
    known = entries(file)
    for key, value in found.items():
        known[key] |= {"value": round(value, 4), "source": source}
    file.write_text(json.dumps(known, indent=2) + "\n", "utf-8")


def of_gateway(report: Mapping[str, Any], file: Path = FILE) -> Mapping[str, float]:
    """Returns the figures in a report of `make bench-gateway`, found by row, column and part."""
    rows = {row["key"]: row for row in report["rows"]}
    found = {}
    for key, entry in entries(file).items():
        row, column, part = (entry.get(name) for name in ("row", "column", "part"))
        values = rows.get(row, {}).get("values" if part is None else "parts", {}).get(column)
        value = values if part is None or values is None else values.get(part)
        if value is not None:
            found[key] = float(value)
    return found
