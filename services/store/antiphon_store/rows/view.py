"""The view of a decision: the rows that it sees, and the program that it makes (optimistic concurrency).

A decision is a function of a `View`. It tests conditions (`test`) and adds changes. If a row is not known yet, `test`
assumes the usual answer, True, and adds the condition to the program as a guard. If the row is known, `test` answers
from the row and pins it: a guard requires that neither a writer nor time has changed it since. So one function serves
the first attempt, which knows no rows and needs one round trip, and every later attempt, which knows the rows whose
guards failed. `need` returns a row that a decision cannot do without: a row that is not known is fetched, and the
decision starts again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeVar

from antiphon_core import damage
from antiphon_store.rows.model import (
    ChainRows,
    Change,
    Condition,
    Delete,
    DeleteBelow,
    Fewer,
    File,
    Grow,
    Guard,
    Index,
    Kind,
    Now,
    Program,
    Put,
    Read,
    Ref,
    Rejection,
    Row,
    Set,
    Unfile,
    Value,
)

_Answer = TypeVar("_Answer")

NO_REJECTION = Rejection(0, {})
AT_ONCE = Now()

_TIMES = (Condition.AHEAD, Condition.BEHIND)


class UnknownRow(Exception):
    """The decision needs rows that were not read yet."""

    def __init__(self, *refs: Ref) -> None:
        super().__init__(*refs)
        self.refs = refs


class View:
    """The `known` rows (None: absent) as of `rejection.now_ms`, and the program that a decision makes."""

    __slots__ = ("_changes", "_guards", "_known", "_pinned", "_reads", "is_crowded", "now_ms", "too_long")

    def __init__(self, known: Mapping[Ref, Row | None], rejection: Rejection = NO_REJECTION) -> None:
        self._known = known
        self._pinned: set[Ref] = set()
        self._guards: list[Guard | Fewer] = []
        self._changes: list[Change] = []
        self._reads: list[Read] = []
        self.now_ms = rejection.now_ms  # of the last attempt; 0 in the first
        self.too_long = rejection.too_long  # the bound that a chain exceeded in the last attempt
        self.is_crowded = rejection.is_crowded  # whether a `fewer` did not hold in the last attempt

    # ---- Guards ----

    def test(self, kind: Kind, row_id: str, test: Condition, field: str = "", value: Value = None) -> bool:
        """Whether a condition holds for a row. If the row is not known: True, and the condition becomes a guard."""
        ref = Ref(kind, row_id)
        guard = Guard(ref, test, field, value)
        if ref in self._known:
            row = self.need(kind, row_id)
            is_met = holds(guard, row, self.now_ms)
            if test in _TIMES and is_met is (test is Condition.AHEAD) and _has(row, field):
                self._guards.append(guard._replace(test=Condition.AHEAD))  # time changes the answer, but not `v`
            return is_met
        self._guards.append(guard)
        return True

    def need(self, kind: Kind, row_id: str) -> Row | None:
        """Returns a row and pins it; None if it is absent. UnknownRow: it must be read first."""
        ref = Ref(kind, row_id)
        try:
            row = self._known[ref]
        except KeyError:
            raise UnknownRow(ref) from None
        if ref not in self._pinned:
            self._pinned.add(ref)
            self._guards.append(
                Guard(ref, Condition.ABSENT) if row is None else Guard(ref, Condition.IS, "v", row.fields["v"])
            )
        return row

    def need_all(self, *refs: tuple[Kind, str]) -> list[Row | None]:
        """Returns several rows as `need` does; rows that are not known are read in one step."""
        missing = [Ref(*each) for each in refs if Ref(*each) not in self._known]
        if missing:
            raise UnknownRow(*missing)
        return [self.need(*each) for each in refs]

    def peek(self, kind: Kind, row_id: str) -> Row | None:
        """Returns a row and does not pin it; None also if it is not known."""
        return self._known.get(Ref(kind, row_id))

    def plan_read(self, kind: Kind, row_id: str) -> None:
        """Notes that the program will read this row with its payloads, so that tests of it need not read it before."""

    def fewer(self, index: Index, key: str, count: int) -> None:
        """Requires fewer than `count` entries of a key in an index. `is_crowded`: the last attempt failed on that."""
        self._guards.append(Fewer(index, key, count))

    # ---- Changes ----

    def put(self, kind: Kind, row_id: str, fields: Mapping[str, Value], items: bytes = b"", body: bytes = b"") -> None:
        self._changes.append(Put(Ref(kind, row_id), {**fields, "v": _first_version()}, items, body))

    def set(self, kind: Kind, row_id: str, **fields: Value) -> None:
        self._changes.append(Set(Ref(kind, row_id), fields))

    def overwrite(self, kind: Kind, row_id: str, fields: Mapping[str, Value], items: bytes, body: bytes) -> None:
        """Writes some fields as `set` does, and new payloads."""
        self._changes.append(Set(Ref(kind, row_id), fields, items, body))

    def delete(self, kind: Kind, row_id: str) -> None:
        self._changes.append(Delete(Ref(kind, row_id)))

    def delete_below(self, kind: Kind, prefix: str) -> None:
        self._changes.append(DeleteBelow(kind, prefix))

    def grow(self, grow: Grow) -> None:
        self._changes.append(grow._replace(fields={**grow.fields, "v": _first_version()}))

    def file(self, index: Index, key: str, entry_id: str, at: int | Now = AT_ONCE) -> None:
        self._changes.append(File(index, key, entry_id, at))

    def unfile(self, index: Index, key: str, entry_id: str, taken_until: int = 0) -> None:
        self._changes.append(Unfile(index, key, entry_id, taken_until))

    # ---- Reads, and the program ----

    def answer_from(self, make: Callable[..., _Answer], *reads: Read) -> Finish[_Answer]:
        """Adds the reads of the program, and finishes the decision with what `make` returns for their answers. Chains
        are read before the changes, the rest after them."""
        self._reads += reads
        return lambda answers: make(*answers)

    @property
    def assumed_refs(self) -> Collection[Ref]:
        """The rows that have a guard although they are not known."""
        return {each.ref for each in self._guards if isinstance(each, Guard) and each.ref not in self._known}

    @property
    def pinned_refs(self) -> AbstractSet[Ref]:
        """The known rows that the program requires to be unchanged."""
        return self._pinned

    @property
    def has_effects(self) -> bool:
        """Whether the program changes or reads anything. If not, the decision needs no transaction."""
        return bool(self._changes or self._reads)

    def program(self) -> Program:
        return Program(self._guards, self._changes, self._reads)


def holds(guard: Guard, row: Row | None, now_ms: int) -> bool:
    """Whether a guard on this row holds."""
    return meets(*guard[1:], row, now_ms)


def meets(test: Condition, field: str, expected: Value, row: Row | None, now_ms: int) -> bool:
    if test is Condition.ABSENT or test is Condition.PRESENT:
        return (row is None) is (test is Condition.ABSENT)
    value = row.fields.get(field) if row is not None else None
    if test is Condition.IS:
        return bool(value == expected) and isinstance(value, bool) is isinstance(expected, bool)  # `true` is not 1
    if test is Condition.AHEAD:
        return value is None or value > now_ms
    if test is Condition.BEHIND:
        return value is None or value <= now_ms
    is_in = any(meets(Condition.IS, field, each, row, now_ms) for each in expected)
    return is_in is (test is Condition.IN)


def _has(row: Row | None, field: str) -> bool:
    return row is not None and row.fields.get(field) is not None


_first_version = partial(random.getrandbits, 40)
"""Makes a random first `v`. A row that was deleted and made again must not look unchanged to a decision that knows the
former row."""


Finish = Callable[[Sequence[Any]], _Answer]
"""Makes the result of an operation from the answers to the program's reads, in their order."""

Decision = Callable[[View], Finish[_Answer]]
"""Adds guards, changes and reads to a view, or raises. It may run several times."""


def require_whole(chain: ChainRows) -> None:
    """DataDamaged: a response of a chain is missing, so the answer would be a part of the history."""
    if chain.ids and chain.fields[-1].get("depth") != len(chain.ids) - 1:
        raise damage.report(f"the history of '{chain.ids[-1]}'", "a response is missing")


def answer(value: _Answer) -> Finish[_Answer]:
    """Finishes a decision whose result needs no reads."""
    return lambda _answers: value


def nothing(_answers: Sequence[Any]) -> None:
    """Finishes a decision that has no result."""
