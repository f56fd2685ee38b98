"""The codec of programs: the arguments of lua/transact.lua, and outcomes from its answers.

Fields are sent and stored as lines `,"name":value`. JSON is written without line breaks here, so that a script finds,
compares and replaces values without parsing them, and every JSON value is kept as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import orjson

from antiphon_core.jsons import loads
from antiphon_store.backends.redis import keys
from antiphon_store.rows.model import (
    TENANT_WIDE,
    Add,
    Applied,
    Chain,
    ChainRows,
    Change,
    Condition,
    Delete,
    DeleteBelow,
    Fewer,
    File,
    Get,
    Grow,
    Guard,
    Now,
    Outcome,
    Partition,
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

_FIRST_PAYLOAD = 3  # ARGV: now, the program, payloads
_NO_PAYLOAD, _KEEP_PAYLOAD = 0, -1


def arguments(partition: Partition, program: Program) -> list[bytes]:
    """The script's arguments after the time: the program and its payloads."""
    payloads = _Payloads()
    reads: list[Any] = []
    chains: list[Any] = []
    for read in program.reads:
        (chains if isinstance(read, Chain) else reads).append(_read(read))
    changes = [_change(partition, change, payloads) for change in program.changes]
    guards = [_guard(partition, each) for each in program.guards]
    return [orjson.dumps([guards, chains, changes, reads]), *payloads.bytes]


def outcome(program: Program, answer: Sequence[Any]) -> Outcome:
    """Reads the script's answer to a program."""
    _ok, verdict, now_ms, *rest = answer
    if verdict == b"applied":
        chains, others = iter(rest[0]), iter(rest[1])
        answers = [
            to_chain(next(chains)) if isinstance(read, Chain) else _answer(read, next(others)) for read in program.reads
        ]
        return Applied(now_ms, answers)
    if verdict == b"refused":
        failing, is_crowded = rest
        rows: dict[Ref, Row | None] = {}
        for number, *row in failing:
            guard = program.guards[number - 1]
            assert isinstance(guard, Guard)  # noqa: S101 - a `Fewer` names no row
            rows[guard.ref] = to_row(guard.ref, *row)
        return Rejection(now_ms, rows, is_crowded=bool(is_crowded))
    return Rejection(now_ms, {}, too_long=verdict.decode())


def is_tenant_wide(change: Change) -> bool:
    """Whether a change is one of an entry that does not lie with the partition."""
    return isinstance(change, File | Unfile) and change.of in TENANT_WIDE


def entry_time(at: int | Now) -> str:
    """The time of an entry as lua/parts/entries.lua reads it."""
    return f"+{at.plus_ms}" if isinstance(at, Now) else str(at)


# ---- From the answers ----


def to_row(ref: Ref, fields: bytes | None, items: bytes | None = None, body: bytes | None = None) -> Row | None:
    """The row of a script's answer; None if it is absent."""
    return None if fields is None else READER.row(ref, fields, items, body)


def to_nodes(ids: Sequence[str], texts: Sequence[bytes | None]) -> Iterator[Row | None]:
    """The nodes of a script's answer without payloads, parsed together; None for one that is absent."""
    there = [(node_id, text) for node_id, text in zip(ids, texts, strict=True) if text is not None]
    fields = iter(READER.nodes(*zip(*there, strict=True)) if there else ())
    return (None if text is None else Row(next(fields)) for text in texts)


def join_lists(parts: Iterable[Sequence[Any]]) -> list[Any]:
    """Joins lists that a script read in several calls."""
    return list(chain.from_iterable(parts))


def to_chain(answer: Sequence[Any]) -> ChainRows:
    """Reads the script's answer, which goes from the node up to its root."""
    first_id, texts, *payloads = answer
    if not texts:
        return ChainRows()
    name = first_id.decode(errors="replace")
    fields = READER.chain([name] * len(texts), texts)[::-1]
    ids = [str(each.get("parent")) for each in fields[1:]]
    nothing = [b""] * len(texts)
    items, bodies = ([each or b"" for each in join_lists(parts)][::-1] or nothing for parts in payloads)
    return ChainRows([*ids, name], fields, items, bodies)


def _answer(read: Get | Range, answer: Any) -> Any:
    if isinstance(read, Get):
        return None if answer is None else to_row(read.ref, *answer)
    kind, names = read.kind, [row_id.decode(errors="replace") for row_id, *_ in answer]
    return [(name, to_row(Ref(kind, name), *row)) for name, (_id, *row) in zip(names, answer, strict=True)]


def _parse_lines(lines: bytes) -> Any:
    """Parses lines as JSON without the first comma of each object. No value contains a line break."""
    return loads(lines.replace(b"{\n,", b"{"))


READER = RowReader[bytes](
    lambda text: _parse_lines(b"{" + text + b"}"), lambda texts: _parse_lines(b"[{" + b"},{".join(texts) + b"}]")
)


# ---- To the arguments ----


class _Payloads:
    """The payloads of a program, which are arguments of their own."""

    def __init__(self) -> None:
        self.bytes: list[bytes] = []

    def number(self, payload: bytes | None) -> int:
        """Adds a payload, and returns the number of its argument."""
        if payload is None:
            return _KEEP_PAYLOAD
        if not payload:
            return _NO_PAYLOAD
        self.bytes.append(payload)
        return _FIRST_PAYLOAD + len(self.bytes) - 1


def _guard(partition: Partition, guard: Guard | Fewer) -> Sequence[Any]:
    if isinstance(guard, Fewer):
        return "fewer", keys.entries(partition, guard.of, guard.key), guard.bound
    (kind, row_id), test = guard.ref, guard.test
    if test in (Condition.ABSENT, Condition.PRESENT, Condition.AHEAD, Condition.BEHIND):
        return test, kind, row_id, guard.field
    values = [guard.value] if test is Condition.IS else guard.value
    lines = "".join(f"\n{_json(each)}\n" for each in values)
    return "not_in" if test is Condition.NOT_IN else "in", kind, row_id, guard.field, lines


def _change(partition: Partition, change: Change, payloads: _Payloads) -> Sequence[Any]:
    match change:
        case Set(ref, fields, items, body):
            return "set", *ref, *_write_values(fields), payloads.number(items), payloads.number(body)
        case Put(ref, fields, new_items, new_body):
            return "put", *ref, *_write_values(fields), payloads.number(new_items), payloads.number(new_body)
        case Grow(node_id, parent, fields, new_items, new_body):
            place = node_id, parent, fields.get("session")
            return "grow", *place, *_write_values(fields), payloads.number(new_items), payloads.number(new_body)
        case File(index, key, entry_id, at):
            return "file", keys.entries(partition, index, key), entry_id, entry_time(at)
        case Unfile(index, key, entry_id, _):
            return "unfile", keys.entries(partition, index, key), entry_id
        case Delete(ref):
            return "delete", *ref
        case DeleteBelow(kind, prefix):
            return "delete_below", kind, prefix


def _write_values(fields: Mapping[str, Value]) -> tuple[str, list[Any]]:
    """The lines of known values, and the values that the script computes."""
    lines: list[str] = []
    computed: list[Any] = []
    for name, value in fields.items():
        if isinstance(value, Now):
            computed += name, "now", value.plus_ms
        elif isinstance(value, Add):
            computed += name, "add", value.amount
        else:
            lines.append(f'\n,"{name}":{_json(value)}')
    return "".join(lines), computed


def _read(read: Read) -> Sequence[Any]:
    match read:
        case Get(ref, payload):
            return "get", *ref, payload
        case Chain(start, payload, max_depth, max_bytes, starts_at_head):
            return start, starts_at_head, payload, max_depth, max_bytes
        case Range(kind, prefix, start, max_bytes):
            return "range", kind, prefix, start, max_bytes


def _json(value: Value) -> str:
    if value is None:
        return "null"
    if type(value) is int:
        return str(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
