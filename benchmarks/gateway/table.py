"""A run as one Markdown table, and as JSON."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from antiphon_core.jsons import Object
from benchmarks.gateway.board import Board, Row, Verdict
from benchmarks.gateway.subjects import Column


def markdown(board: Board, rows: Iterable[Row]) -> str:
    """Returns the rows that have a value, and the problems."""
    headings = ["", "unit", *(column.value for column in Column), "target"]
    cells = [_cells(board, row) for row in rows if _has_value(board, row)]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    lines = [_line(headings, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    lines += (_line(row, widths) for row in cells)
    if board.problems:
        lines += ["", "Problems:", "", *(f"- {problem}" for problem in board.problems)]
    return "\n".join(lines)


def as_json(board: Board, rows: Iterable[Row], *, wall_s: float, peer: str | None) -> Object:
    """Returns the whole table, and a description of the machine."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": list(os.getloadavg())},
        "peer": peer,
        "wall_s": round(wall_s, 1),
        "rows": [_row_json(board, row) for row in rows if _has_value(board, row)],
        "problems": board.problems,
    }


def _has_value(board: Board, row: Row) -> bool:
    return any((row.key, column) in board.values for column in Column)


def _cells(board: Board, row: Row) -> Sequence[str]:
    values = (board.values.get((row.key, column)) for column in Column)
    target = "; ".join(map(_in_words, board.verdicts(row)))
    return [row.name, row.unit, *("-" if value is None else _number(value) for value in values), target]


def _in_words(verdict: Verdict) -> str:
    limit = verdict.limit
    sign = ">=" if limit.is_least else "<="
    if limit.of is None:
        text = f"{limit.column} {sign} {limit.bound:g}"
    else:
        text = f"{limit.column} {_number(verdict.measured)} x ({sign} {limit.bound:g} x {_base(verdict)})"
        text += f" beyond {limit.beyond:g}" if limit.beyond else ""
    result = "met" if verdict.is_met else "**missed**"
    if verdict.is_stretch_met is not None:
        result += f", stretch {limit.stretch:g} x {'met' if verdict.is_stretch_met else 'missed'}"
    return f"{text}: {result}"


def _base(verdict: Verdict) -> str:
    """Names the other cell: its column if both are in one row, else its row."""
    assert verdict.limit.of is not None
    key, column = verdict.limit.of
    return column.value if column is not verdict.limit.column else key


def _number(value: float) -> str:
    """Formats a number with three significant digits."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def _row_json(board: Board, row: Row) -> Object:
    return {
        "key": row.key,
        "name": row.name,
        "unit": row.unit,
        "values": {column.value: value for (key, column), value in board.values.items() if key == row.key},
        "parts": {column.value: parts for (key, column), parts in board.parts.items() if key == row.key},
        "verdicts": [_verdict_json(verdict) for verdict in board.verdicts(row)],
    }


def _verdict_json(verdict: Verdict) -> Object:
    return {
        "column": verdict.limit.column.value,
        "bound": verdict.limit.bound,
        "of": None if verdict.limit.of is None else {"row": verdict.limit.of[0], "column": verdict.limit.of[1].value},
        "measured": verdict.measured,
        "met": verdict.is_met,
        "stretch": verdict.limit.stretch,
        "stretch_met": verdict.is_stretch_met,
    }


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, unit, *numbers, target = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    shown = (cell.strip().rjust(len(cell)) for cell in numbers)
    return "| " + " | ".join([name, unit, *shown, target]) + " |"
