"""The codec of programs (rows/model.py): encodes them as arguments of the functions in schema.sql, and decodes the
answers.

Programs are sent as a list of JSON documents. All payloads are sent as one byte string, and the documents name slices
of it: [first byte, length], counted from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from antiphon_core.errors import DataDamaged
from antiphon_store.backends.postgres.plain_text import from_json, original, to_json
from antiphon_store.rows.model import (
    TENANT_WIDE,
    VOLATILE_TREES,
    Add,
    Applied,
    Chain,
    ChainRows,
    Change,
    Delete,
    DeleteBelow,
    Fewer,
    File,
    Get,
    Grow,
    Guard,
    Index,
    Kind,
    Now,
    Outcome,
    Partition,
    Payload,
    Program,
    Put,
    Range,
    Read,
    Ref,
    Rejection,
    Row,
    Set,
    Unfile,
    Value,
)
from antiphon_store.rows.stored_rows import RowReader
from antiphon_store.rows.view import holds

Line = tuple[int, int, int | None, str | None, str | None, bytes | None, bytes | None]
"""A line of an answer: the number of a program, and the columns of the SQL type `answer`."""
_Found = dict[tuple[int, int], list[Line]]
_DEPTH = itemgetter(2)
READER = RowReader[str](from_json, lambda texts: from_json(f"[{','.join(texts)}]"))
_READS = 1_000_000  # numbers of chains and ranges begin here, so that they differ from those of rows

_Part = TypeVar("_Part")


class Call(NamedTuple):
    """A program and its partition."""

    partition: Partition
    program: Program


def size_of(call: Call) -> int:
    """The number of bytes in a program's payloads."""
    writes = [each for each in call.program.changes if isinstance(each, Put | Set | Grow)]
    return sum(len(each.items or b"") + len(each.body or b"") for each in writes)


def write_params(calls: Sequence[Call]) -> dict[str, str | bytes]:
    """The parameters of the statement `transact`."""
    payloads = _Payloads()
    documents = [_document(*each, payloads) for each in calls]
    return {"programs": to_json(documents), "locks": to_json(_locks(calls)), "payloads": b"".join(payloads.parts)}


def _document(partition: Partition, program: Program, payloads: _Payloads) -> dict[str, Value]:
    tree = partition.tree
    entries: dict[tuple[Index, str, str], File | Unfile] = {}  # the last change of each entry
    changes = []
    for change in program.changes:
        if isinstance(change, File | Unfile):
            entries[change.of, change.key, change.id] = change
        else:
            changes.append(_change(change, payloads))
    ordered = sorted(entries.items(), key=lambda entry: entry[0])  # against deadlocks: the order of all programs
    document = {
        "tenant": partition.tenant,
        "tree": tree,
        "guards": [[number, *each.ref, *each[1:]] for number, each in _number_parts(program.guards, Guard)],
        "bounds": [[number, *each] for number, each in _number_parts(program.guards, Fewer)],
        "changes": changes,
        "filed": [_file_params(tree, each) for _name, each in ordered if isinstance(each, File)],
        "unfiled": [_entry(tree, each) for _name, each in ordered if isinstance(each, Unfile)],
        "gets": [[number, *each.ref, each.payload] for number, each in _number_parts(program.reads, Get)],
        "chains": [[number, *each] for number, each in _number_parts(program.reads, Chain)],
        "ranges": [[number, *each] for number, each in _number_parts(program.reads, Range)],
        "volatile": tree in VOLATILE_TREES,
    }
    return {name: each for name, each in document.items() if each}


def _named_rows(program: Program) -> dict[Ref, Payload]:
    """The rows that a program names, with the payloads to read of each."""
    rows = {each.ref: Payload.NONE for each in program.guards if isinstance(each, Guard)}
    for read in program.reads:
        if isinstance(read, Get):
            rows[read.ref] = max(rows.get(read.ref, Payload.NONE), read.payload)
    return rows


def fetch_params(calls: Sequence[Call]) -> dict[str, str]:
    """The parameters of a read of programs without changes. A parameter is named after the part of the statement that
    it belongs to."""
    gets, chains, ranges = [], [], []
    for place, (partition, program) in enumerate(calls):
        part = (place, *partition)
        gets += [(*part, (number, *ref, payload)) for number, (ref, payload) in enumerate(_named_rows(program).items())]
        chains += [(*part, (_READS + number, *read)) for number, read in _number_parts(program.reads, Chain)]
        ranges += [(*part, (_READS + number, *read)) for number, read in _number_parts(program.reads, Range)]
    documents = {"gets": gets, "chains": chains, "ranges": ranges}
    return {name: to_json(each) for name, each in documents.items() if each}


def outcomes_of_fetch(calls: Sequence[Call], lines: Sequence[Line]) -> list[Applied | DataDamaged | None]:
    """Decodes the lines of `fetch`. None: the program has to be sent to `transact`, which alone can tell whether it is
    rejected."""
    found = _group_lines(lines)
    ((_, _, now_ms, *_),) = found[-1, -1]
    assert now_ms is not None  # noqa: S101 - that line has the time
    return [_alone(_outcome_of_fetch, place, call.program, found, now_ms) for place, call in enumerate(calls)]


def _outcome_of_fetch(place: int, program: Program, found: _Found, now_ms: int) -> Applied | None:
    rows = {
        ref: _row(ref.kind, found[place, number][0]) if (place, number) in found else None
        for number, ref in enumerate(_named_rows(program))
    }
    if not all(isinstance(each, Guard) and holds(each, rows[each.ref], now_ms) for each in program.guards):
        return None
    answers = [
        rows[read.ref] if isinstance(read, Get) else _answer(read, found.get((place, _READS + number), []))
        for number, read in enumerate(program.reads)
    ]
    if any(isinstance(each, ChainRows) and not each.ids for each in answers):
        return None  # an empty chain: perhaps one that exceeds a bound
    return Applied(now_ms, answers)


def _group_lines(lines: Sequence[Line]) -> _Found:
    """Groups lines by program and number."""
    found: _Found = {}
    for line in lines:
        found.setdefault((line[0], line[1]), []).append(line)
    return found


def tree_of(tree: str, index: Index) -> str:
    """The tree in the keys of an index's entries; empty if the index belongs to the tenant."""
    return "" if index in TENANT_WIDE else tree


def outcomes_of(calls: Sequence[Call], lines: Sequence[Line]) -> list[Outcome | DataDamaged]:
    """Decodes the lines of `transact`."""
    found = _group_lines(lines)
    return [_alone(_outcome, place, call.program, found) for place, call in enumerate(calls)]


def _alone(decode: Callable[..., _Part], *of: Any) -> _Part | DataDamaged:
    """The outcome of one program, or its error: damaged rows must not fail the other programs of a statement."""
    try:
        return decode(*of)
    except DataDamaged as error:
        return error


def _outcome(place: int, program: Program, found: _Found) -> Outcome:
    ((_, _, now_ms, result, *_),) = found[place, -1]
    assert now_ms is not None  # noqa: S101 - that line has the time
    if result == "applied":
        return Applied(now_ms, [_answer(read, found.get((place, at), [])) for at, read in enumerate(program.reads)])
    if result != "refused":
        return Rejection(now_ms, {}, too_long=result or "")
    failing = [(guard, found[place, at][0]) for at, guard in enumerate(program.guards) if (place, at) in found]
    rows = {guard.ref: _row(guard.ref.kind, line) for guard, line in failing if isinstance(guard, Guard)}
    return Rejection(now_ms, rows, is_crowded=any(isinstance(guard, Fewer) for guard, _line in failing))


class _Payloads:
    """The payloads of programs, one after another."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._next = 1

    def slice(self, payload: bytes | None) -> list[int] | None:
        if payload is None:
            return None
        first, length = self._next, len(payload)
        if length:
            self.parts.append(payload)
            self._next += length
        return [first, length]


def _locks(calls: Sequence[Call]) -> list[tuple[str, bool]]:
    """The names of the trees and rows to lock, each with whether the lock is exclusive. They are sorted: all programs
    lock in this order, so that none waits for another in a circle."""
    locks: dict[str, bool] = {}
    for partition, program in calls:
        tree = "/".join(partition)
        changed = {each.ref for each in program.changes if isinstance(each, Put | Set)}
        guarded = {each.ref for each in program.guards if isinstance(each, Guard)}
        locks[tree] = locks.get(tree, False) or not guarded | changed or _needs_its_tree(program)
        for ref in guarded | changed:
            name = f"{tree}/{ref.kind}/{ref.id}"
            locks[name] = locks.get(name, False) or ref in changed
    return sorted(locks.items())


def _needs_its_tree(program: Program) -> bool:
    """Whether a program locks its tree exclusively. A program without changes does, so that all its reads are of the
    same moment."""
    return not program.changes or any(
        isinstance(each, Grow | Delete | DeleteBelow | Fewer) for each in (*program.changes, *program.guards)
    )


def _number_parts(parts: Sequence[Any], kind: type[_Part]) -> Iterator[tuple[int, _Part]]:
    return ((number, part) for number, part in enumerate(parts) if isinstance(part, kind))


def _change(change: Change, payloads: _Payloads) -> list[Value]:
    match change:
        case Set((kind, row_id), fields, items, body):
            plain, times, counted = _split(fields)
            sums = counted | {name: [plus_ms] for name, plus_ms in (times or {}).items()}
            return ["set", kind, row_id, plain, None, payloads.slice(items), payloads.slice(body), sums]
        case Put((kind, row_id), fields, new_items, new_body):
            plain, times, counted = _split(fields)
            return [
                "put",
                kind,
                row_id,
                plain | counted | _first_version(fields),
                times,
                payloads.slice(new_items),
                payloads.slice(new_body),
            ]
        case Grow(row_id, parent, fields, new_items, new_body):
            plain, times, counted = _split(fields)
            slices = payloads.slice(new_items), payloads.slice(new_body)
            return ["grow", Kind.NODE, row_id, plain | counted | _first_version(fields), times, *slices, parent]
        case Delete((kind, row_id)):
            return ["delete", kind, row_id]
        case DeleteBelow(kind, prefix):
            return ["delete_below", kind, prefix]
    raise AssertionError(f"There is no such change: {change}.")


def _split(fields: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, int] | None, dict[str, int]]:
    """Splits fields into values, milliseconds from now, and numbers to add (`v` among them)."""
    plain: dict[str, Value] = {}
    times: dict[str, int] = {}
    counted = {"v": 1}
    for name, value in fields.items():
        if isinstance(value, Now):
            times[name] = value.plus_ms
        elif isinstance(value, Add):
            counted[name] = value.amount
        else:
            plain[name] = value
    return plain, times or None, counted


def _first_version(fields: Mapping[str, Value]) -> dict[str, Value]:
    """The `v` of a new row."""
    return {"v": fields.get("v", 0) + 1}


def _entry(tree: str, change: File | Unfile) -> list[Value]:
    return [tree_of(tree, change.of), change.of, change.key, change.id]


def _file_params(tree: str, change: File) -> list[Value]:
    at = change.at
    return [*_entry(tree, change), *((None, at.plus_ms) if isinstance(at, Now) else (at, None))]


def _answer(read: Read, lines: list[Line]) -> Any:
    if isinstance(read, Get):
        return _row(read.ref.kind, lines[0]) if lines else None
    if isinstance(read, Chain):
        return _chain(lines)
    return [(original(line[3] or ""), _row(read.kind, line)) for line in lines]


def _chain(lines: list[Line]) -> ChainRows:
    if not lines:
        return ChainRows()
    lines.sort(key=_DEPTH)
    *_, ids, fields, items, bodies = zip(*lines, strict=True)
    names = [*map(original, ids)]
    return ChainRows(names, READER.chain(names, fields), items, bodies)


def _row(kind: Kind, line: Line) -> Row | None:
    row_id, fields, items, body = line[3:]
    return None if fields is None else READER.row(Ref(kind, original(row_id or "")), fields, items, body)
