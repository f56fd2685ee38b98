"""Decisions beside the rows: for a backend whose rows are in this process, in one transaction of its own.

Nothing has to be assumed there, guarded or asked again, because nobody else changes the rows meanwhile. The decision is
the same function that runs over a `View` of rows elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from antiphon_store.rows.decision import Decision
from antiphon_store.rows.model import (
    Condition,
    Fewer,
    Get,
    Kind,
    Program,
    Read,
    Ref,
    Refused,
    Row,
    Value,
    meets,
)
from antiphon_store.rows.view import View

_Answer = TypeVar("_Answer")


class TooLong(Exception):
    """A chain is over a bound, which the text names: "depth" or "bytes"."""


class LocalRows(Protocol):
    """The rows of a partition inside a transaction."""

    @property
    def now_ms(self) -> int: ...

    def row(self, ref: Ref) -> Row | None:
        """A row; it may come without its payloads."""

    def whole_row(self, ref: Ref) -> Row | None:
        """A row with its payloads."""

    def has_fewer(self, fewer: Fewer) -> bool: ...

    def apply(self, program: Program) -> Sequence[Any]:
        """Makes the changes of a program whose guards hold, and reads. TooLong, before anything is changed."""


class LocalView(View):
    """A view that knows every row."""

    def __init__(self, rows: LocalRows, refused: Refused) -> None:
        super().__init__({}, refused)
        self._rows = rows

    def test(self, kind: Kind, row_id: str, test: Condition, field: str = "", value: Value = None) -> bool:
        return meets(test, field, value, self._rows.row(Ref(kind, row_id)), self.now_ms)

    def need(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.whole_row(Ref(kind, row_id))

    def need_all(self, *refs: tuple[Kind, str]) -> list[Row | None]:
        return [self._rows.whole_row(Ref(*each)) for each in refs]

    def peek(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.row(Ref(kind, row_id))

    def read(self, read: Read) -> int:
        if type(read) is Get and read.payload:
            self._rows.whole_row(read.ref)  # before something of it is tested: then it is read once
        return super().read(read)


def decide(rows: LocalRows, decision: Decision[_Answer]) -> _Answer:
    """Runs a decision over rows and applies its program. What it raises has changed nothing."""
    refused = Refused(rows.now_ms, {})
    while True:  # a decision that is told of a bound raises
        view = LocalView(rows, refused)
        finish = decision(view)
        program = view.program()
        if program.guards and not all(rows.has_fewer(each) for each in program.guards if isinstance(each, Fewer)):
            refused = Refused(rows.now_ms, {}, crowded=True)
            continue
        try:
            return finish(rows.apply(program))
        except TooLong as bound:
            refused = Refused(rows.now_ms, {}, too_long=str(bound))
