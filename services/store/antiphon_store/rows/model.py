"""The rows that a backend stores, and the one kind of transaction that it executes.

All rows of a tree of responses lie in one `Partition`. A `Program` is applied to one partition in one step: when every
guard holds, all changes are made and what was asked for is read; else nothing changes, and the rows whose guards failed
come back. A program does not know what is stored. It says what must hold, so the usual case needs one round trip.

    row       fields (small JSON values) and, for some kinds, two payloads of bytes. Each change counts `v` up by one.
              In a new row it begins behind the `v` of its fields, if they have one.
    entry     a line of an index: (index, key) -> ids in the order of `at`, then of the ids. Some indexes belong to the
              partition, others (`TENANT_WIDE`) to the tenant: those are hints that are verified at the row they name.
    node      a row of kind NODE, the only rows with parents. `Grow` makes one, and chains are read along parents.

Values that only the backend knows are written as `Now` (its clock) and `Add` (to the number that is there).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

Value = Any  # what JSON has: text, whole numbers, booleans, None, and arrays and objects of them


class Partition(NamedTuple):
    """The rows that one transaction covers. `tree` is a tree tag, or names rows of a tenant that belong to no tree."""

    tenant: str
    tree: str


QUOTA_TREE = "quota"  # the partition of what a tenant uses up
VOLATILE_TREES = frozenset({QUOTA_TREE})
"""Trees whose rows are worth a minute, and need not be durable. They have no entries."""


class Kind(StrEnum):
    """The kinds of rows; services/store/README.md has their fields."""

    NODE = "node"
    SESSION = "session"
    CONVERSATION = "conversation"
    LOG = "log"
    BATCH = "batch"
    JOB = "job"
    KEY = "key"
    POINTER = "pointer"
    QUOTA = "quota"
    LINE = "line"
    PROMPT = "prompt"


class Index(StrEnum):
    """The indexes. Key -> ids."""

    CHILDREN = "children"  # response -> the responses that continue it, by birth
    MADE = "made"  # session -> the responses made in it, by birth
    ITEM = "item"  # item id -> the nodes that hold it, by birth
    QUEUE = "queue"  # queue -> jobs, by when they can be claimed; of all tenants: places of tenants in their line
    HOLDER = "holder"  # queue and holder -> the job that the holder claimed last
    ENDS = "ends"  # "" -> what may be reclaimed: "<kind>/<id>", by when


TENANT_WIDE = frozenset({Index.ITEM, Index.QUEUE, Index.HOLDER, Index.ENDS})


class Ref(NamedTuple):
    """The name of a row in its partition."""

    kind: Kind
    id: str


class Row(NamedTuple):
    """A stored row. Its fields must not be changed in place. Payloads are empty where they were not asked for."""

    fields: Mapping[str, Value]
    items: bytes = b""
    body: bytes = b""


NO_ROW = Row({})  # in the place of a row that is not there


class Condition(StrEnum):
    """The condition of a guard on a row. A field that a row lacks, and any field of an absent row, is None."""

    ABSENT = "absent"  # there is no such row
    PRESENT = "present"
    IS = "is"  # the field equals the value
    IN = "in"  # the field is one of the values
    NOT_IN = "not_in"
    AHEAD = "ahead"  # the field is a time to come, or None: for ever
    BEHIND = "behind"  # the field is a time that is over, or None: it never was


class Guard(NamedTuple):
    """One condition on one row."""

    ref: Ref
    test: Condition
    field: str = ""
    value: Value = None


class Fewer(NamedTuple):
    """The condition that an index has fewer than `bound` entries under a key."""

    of: Index
    key: str
    bound: int


class Now(NamedTuple):
    """So many milliseconds from now, by the backend's clock."""

    plus_ms: int = 0


class Add(NamedTuple):
    """The number in the field, or 0, and so much more."""

    amount: int


class Put(NamedTuple):
    """Writes a whole row, in place of what is there. It brings its own `v`, so that nobody reads the former row."""

    ref: Ref
    fields: Mapping[str, Value]
    items: bytes = b""
    body: bytes = b""


class Set(NamedTuple):
    """Writes some fields of a row, which need not be there. Other fields stay, and so do payloads that are None."""

    ref: Ref
    fields: Mapping[str, Value]
    items: bytes | None = None
    body: bytes | None = None


class Delete(NamedTuple):
    ref: Ref


class DeleteBelow(NamedTuple):
    """Deletes the rows of a kind whose ids begin with a prefix."""

    kind: Kind
    prefix: str


class Grow(NamedTuple):
    """Adds a node behind its parent, or as a root. The backend sets `depth`, the parent's plus one, `created` and
    `updated`, and makes the entries in CHILDREN and, with a `session`, in MADE: `made_id`. The parent must be there: a
    guard says so."""

    id: str
    parent: str | None
    fields: Mapping[str, Value]
    items: bytes = b""
    body: bytes = b""


class File(NamedTuple):
    """Writes an entry; one of the same index, key and id is moved."""

    of: Index
    key: str
    id: str
    at: int | Now = Now()


class Unfile(NamedTuple):
    """Removes an entry. `taken_until`: it was taken so (`take_due`). A backend that removes entries after the program
    leaves one that has another time by then: somebody filed it anew."""

    of: Index
    key: str
    id: str
    taken_until: int = 0


Change = Put | Set | Delete | DeleteBelow | Grow | File | Unfile


class Payload(StrEnum):
    """Which payloads are read with a row."""

    NONE = ""
    ITEMS = "i"
    ALL = "ib"


class Get(NamedTuple):
    """Reads a row. The answer: a Row or None."""

    ref: Ref
    payload: Payload = Payload.NONE


class Chain(NamedTuple):
    """Reads a node and its ancestors, root first. The answer: `ChainRows`; empty when the node is not there or is
    expired. It starts at `start`, or at the `head` of a session.

    Over `max_depth` nodes or `max_bytes` the whole program is refused. With ALL payloads the bytes are the sum of the
    nodes' `size`; with ITEMS those of the JSON array that the packed items make together."""

    start: str
    payload: Payload
    max_depth: int
    max_bytes: int
    from_head: bool = False


class ChainRows(NamedTuple):
    """The nodes of a chain as columns: of thousands, a value for each would cost more than reading them."""

    ids: Sequence[str] = ()
    fields: Sequence[Mapping[str, Value]] = ()
    items: Sequence[bytes] = ()
    bodies: Sequence[bytes] = ()

    def named(self) -> Iterator[tuple[str, Row]]:
        """Each id with its row."""
        return zip(self.ids, map(Row, *self[1:]), strict=True)


class Range(NamedTuple):
    """Reads rows of a kind with their payloads in the order of their ids: those that begin with `prefix`, from the last
    one that is not behind `start` on, until their items are `max_bytes` or more. The answer: a list of (id, Row).
    `prefix` ends with the last slash of the ids; "" stands for all rows of a kind whose ids have none."""

    kind: Kind
    prefix: str
    start: str
    max_bytes: int


Read = Get | Chain | Range


class Program(NamedTuple):
    """One transaction on one partition."""

    guards: Sequence[Guard | Fewer] = ()
    changes: Sequence[Change] = ()
    reads: Sequence[Read] = ()


def brings_rows(program: Program) -> bool:
    """Whether a program brings new rows or payloads. One that does not ends, deletes or reclaims something, or changes
    a few fields: it needs no room that is worth counting."""
    return any(
        isinstance(each, Put | Grow) or (isinstance(each, Set) and bool(each.items or each.body))
        for each in program.changes
    )


class Applied(NamedTuple):
    """All guards held. `answers` are those of the reads, in their order, after the changes."""

    now_ms: int
    answers: Sequence[Any]


class Refused(NamedTuple):
    """Nothing was changed. `rows` are those of the guards that did not hold, with all payloads. `too_long` says which
    bound of a chain was exceeded ("depth" or "bytes"), `crowded` that a `Fewer` did not hold."""

    now_ms: int
    rows: Mapping[Ref, Row | None]
    too_long: str = ""
    crowded: bool = False


Outcome = Applied | Refused


class Entry(NamedTuple):
    """A line of an index. `row` is the node that it names, where that was asked for. `taken_until`: the time that it
    was moved to when it was taken, if the backend wants to know it again (`Unfile`)."""

    id: str
    at: int
    row: Row | None = None
    taken_until: int = 0


def made_id(depth: int, response_id: str) -> str:
    """The id of an entry in MADE: of two born in one millisecond the ancestor comes first."""
    return f"{depth:08d}/{response_id}"


def named_node(entry_id: str) -> str:
    """The node that an entry of CHILDREN or MADE names."""
    return entry_id.rpartition("/")[2]


def holds(guard: Guard, row: Row | None, now_ms: int) -> bool:
    """Whether a guard holds for a row."""
    return meets(*guard[1:], row, now_ms)


def meets(test: Condition, field: str, expected: Value, row: Row | None, now_ms: int) -> bool:
    """Whether a row is as a condition says."""
    if test is Condition.ABSENT or test is Condition.PRESENT:
        return (row is None) is (test is Condition.ABSENT)
    value = row.fields.get(field) if row is not None else None
    if test is Condition.IS:
        return _equals(value, expected)
    if test is Condition.AHEAD:
        return value is None or value > now_ms
    if test is Condition.BEHIND:
        return value is None or value <= now_ms
    return any(_equals(value, each) for each in expected) is (test is Condition.IN)


def _equals(value: Value, other: Value) -> bool:
    """As in JSON, where `true` is no number."""
    return bool(value == other) and isinstance(value, bool) is isinstance(other, bool)


def resolved(value: Value, former: Value, now_ms: int) -> Value:
    """A value of a change, as it is stored."""
    if type(value) is Now:
        return now_ms + value.plus_ms
    if type(value) is Add:
        return (former or 0) + value.amount
    return value


def made(fields: Mapping[str, Value], now_ms: int) -> dict[str, Value]:
    """The fields of a new row, without `v`."""
    return {
        name: resolved(value, None, now_ms) if type(value) in _COMPUTED else value for name, value in fields.items()
    }


def changed(row: Row | None, fields: Mapping[str, Value], now_ms: int) -> dict[str, Value]:
    """The fields of a row after `Set`."""
    stored = dict(row.fields) if row is not None else {}
    for name, value in fields.items():
        stored[name] = resolved(value, stored.get(name), now_ms) if type(value) in _COMPUTED else value
    stored["v"] = next_version(row, fields)
    return stored


def next_version(row: Row | None, fields: Mapping[str, Value]) -> int:
    """The `v` of a row after a change that writes these fields."""
    former = row.fields.get("v") if row is not None else None
    return int(fields.get("v", 0) if former is None else former) + 1


_COMPUTED = frozenset({Now, Add})
