"""The rows that a backend stores, and the one kind of transaction that it executes.

All rows of a tree of responses lie in one `Partition`. A backend applies a `Program` to one partition in one step. If
every guard holds, it makes all changes and returns the answers to the reads. Otherwise it changes nothing and returns
the rows whose guards failed. Guards state what a caller assumes of rows that it has not read, so the usual case needs
one round trip.

    row       fields (small JSON values) and, for some kinds, two payloads of bytes. Each change increments `v`. The
              first `v` is 1, or one more than the `v` among the given fields.
    entry     a line of an index: (index, key) -> ids, ordered by `at` and then by id. Some indexes belong to the
              partition, others (`TENANT_WIDE`) to the tenant: their entries are hints to verify at the row they name.
    node      a row of kind NODE, the only rows with parents. `Grow` adds one; a chain follows the parents.

A change may have `Now` (the backend's time) and `Add` (to the stored number) in place of values that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

Value = Any  # what JSON has: text, whole numbers, booleans, None, and arrays and objects of them


class Partition(NamedTuple):
    """The rows that one transaction covers. `tree` is the tag of a tree, or names rows that belong to no tree."""

    tenant: str
    tree: str


QUOTA_TREE = "quota"  # the partition of a tenant's quotas
VOLATILE_TREES = frozenset({QUOTA_TREE})
"""Trees without index entries, whose rows matter for about a minute only and need not be durable."""


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
    LINEAGE = "lineage"
    APPROVAL = "approval"


class Index(StrEnum):
    """The indexes. Key -> ids."""

    CHILDREN = "children"  # response -> the responses that continue it, by creation time
    MADE = "made"  # session -> the responses made in it, by creation time
    LEVEL = "level"  # "" -> all nodes, by depth and then by creation time; `at` is the depth, the id a `level_id`
    CREATED = "created"  # "" -> all nodes, by creation time
    ITEM = "item"  # item id with the tree's tag -> the nodes that hold it, by creation time
    FOREIGN = "foreign"  # any other item id -> the nodes that hold it, by creation time
    RESENT = "resent"  # lineage key -> the responses whose lineage has it, by the time at which it was written
    QUEUE = "queue"  # queue -> jobs, by the time from which they can be claimed; or tenants in line (`tenant_line`)
    HOLDER = "holder"  # queue and holder -> the job that the holder claimed last
    ASKED = "asked"  # "" -> approvals that no response has used, by the time at which they were asked for
    ENDS = "ends"  # "" -> rows as "<kind>/<id>", by the time from which they may be reclaimed


TENANT_WIDE = frozenset({Index.FOREIGN, Index.RESENT, Index.QUEUE, Index.HOLDER, Index.ASKED, Index.ENDS})
NODE_LISTS = frozenset({Index.LEVEL, Index.CREATED})
"""Indexes of all nodes of a partition. A backend keeps them itself, as nodes are written and deleted."""


class Ref(NamedTuple):
    """The name of a row in its partition."""

    kind: Kind
    id: str


class Row(NamedTuple):
    """A stored row. Its fields must not be changed in place. Payloads that were not requested may be empty."""

    fields: Mapping[str, Value]
    items: bytes = b""
    body: bytes = b""


NO_ROW = Row({})  # takes the place of a row that is absent


def size_of(row: Row | None) -> int:
    """The bytes of a row's payloads."""
    return len(row.items) + len(row.body) if row is not None else 0


class Condition(StrEnum):
    """The condition of a guard on a row. A field that a row lacks, and any field of an absent row, is None."""

    ABSENT = "absent"  # there is no such row
    PRESENT = "present"
    IS = "is"  # the field equals the value
    IN = "in"  # the field is one of the values
    NOT_IN = "not_in"
    AHEAD = "ahead"  # the field is a time in the future, or None (no end)
    BEHIND = "behind"  # the field is a time that has passed, or None (no beginning)


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
    """The time of the backend's clock plus `plus_ms`."""

    plus_ms: int = 0


class Add(NamedTuple):
    """The stored number of the field, or 0, plus `amount`."""

    amount: int


class Put(NamedTuple):
    """Writes a whole row in place of a former one. `v` begins anew, so the backend need not read the former row."""

    ref: Ref
    fields: Mapping[str, Value]
    items: bytes = b""
    body: bytes = b""


class Set(NamedTuple):
    """Writes some fields of a row, and creates an absent row. Other fields stay; a payload of None stays, too."""

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
    """Adds a node below its parent, or as a root. The backend sets `depth` (the parent's plus one), `created` and
    `updated`, and writes the entries in CHILDREN and, for a node with a `session`, in MADE (`made_id`). The program
    needs a guard that the parent is present."""

    id: str
    parent: str | None
    fields: Mapping[str, Value]
    items: bytes = b""
    body: bytes = b""


class File(NamedTuple):
    """Writes an entry. An entry of the same index, key and id is moved to the new time."""

    of: Index
    key: str
    id: str
    at: int | Now = Now()


class Unfile(NamedTuple):
    """Removes an entry. `taken_until`: the time that `take_due` moved it to. A backend may remove entries after the
    program. It keeps an entry with another time, because another writer has filed that entry again meanwhile."""

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
    LINEAGE = "il"
    """For a `Chain`: items, and in place of each body the items of the row LINEAGE with the node's id. Those behind the
    first LINEAGE_BYTES_MAX bytes of the chain, root first, may be empty but for the last one."""


class Get(NamedTuple):
    """Reads a row. The answer: a Row or None."""

    ref: Ref
    payload: Payload = Payload.NONE


class Chain(NamedTuple):
    """Reads a node and its ancestors, root first. The answer: `ChainRows`; empty if the node is absent or expired.
    `start` is the id of the node or, with `starts_at_head`, of a session whose `head` is the node.

    A chain of more than `max_depth` nodes or `max_bytes` bytes refuses the whole program. With ALL payloads the bytes
    are the sum of the nodes' `size`; with ITEMS or LINEAGE, the length of the JSON array of all items; with NONE,
    0."""

    start: str
    payload: Payload
    max_depth: int
    max_bytes: int
    starts_at_head: bool = False


class ChainRows(NamedTuple):
    """The nodes of a chain as columns: making a `Row` for each of thousands would cost more than reading them."""

    ids: Sequence[str] = ()
    fields: Sequence[Mapping[str, Value]] = ()
    items: Sequence[bytes] = ()
    bodies: Sequence[bytes] = ()

    def named_rows(self) -> Iterator[tuple[str, Row]]:
        return zip(self.ids, map(Row, *self[1:]), strict=True)


class Range(NamedTuple):
    """Reads the rows of a kind whose ids begin with `prefix`, with payloads, sorted by id. Begins at the last id that
    is at most `start`, or else at the first id; ends when the items have `max_bytes` or more. The answer: a list of
    (id, Row). `prefix` is the ids up to their last slash; "" means all rows of a kind whose ids have no slash."""

    kind: Kind
    prefix: str
    start: str
    max_bytes: int


Read = Get | Chain | Range


class Span(NamedTuple):
    """Selects entries under a key: `limit` at most after (`at`, `id`), in either direction."""

    limit: int
    after: tuple[int, str] | None = None
    is_descending: bool = False


class Program(NamedTuple):
    """One transaction on one partition."""

    guards: Sequence[Guard | Fewer] = ()
    changes: Sequence[Change] = ()
    reads: Sequence[Read] = ()


def brings_rows(program: Program) -> bool:
    """Whether a program adds rows or payloads. Any other program only deletes rows or changes fields, and needs almost
    no space."""
    return any(
        isinstance(each, Put | Grow) or (isinstance(each, Set) and bool(each.items or each.body))
        for each in program.changes
    )


class Applied(NamedTuple):
    """All guards held. `answers` are those of the reads, in their order. A `Chain` is read before the changes, other
    reads after them."""

    now_ms: int
    answers: Sequence[Any]


class Rejection(NamedTuple):
    """Nothing was changed. `rows`: the rows whose guards did not hold, with all payloads. `too_long`: the bound that a
    chain exceeds ("depth" or "bytes"). `is_crowded`: a `Fewer` guard did not hold."""

    now_ms: int
    rows: Mapping[Ref, Row | None]
    too_long: str = ""
    is_crowded: bool = False


Outcome = Applied | Rejection


class Entry(NamedTuple):
    """A line of an index. `row`: the node that it names, if requested and present. `taken_until`: the time that
    `take_due` moved it to, if the backend needs that time in `Unfile`."""

    id: str
    at: int
    row: Row | None = None
    taken_until: int = 0


made_id: Callable[[int, str], str] = "{:08d}/{}".format
"""The id of an entry in MADE, from the depth and the id of a response. Of two nodes made in the same millisecond the
ancestor sorts first."""

level_id: Callable[[int, str], str] = "{:015d}/{}".format
"""The id of an entry in LEVEL, from the creation time and the id of a node."""


def listed_place(index: Index, place: tuple[int, str]) -> tuple[int | str, ...]:
    """The place of an entry in one of NODE_LISTS (`at` and id) as columns: depth for LEVEL, creation time, node id."""
    at, entry_id = place
    if index is not Index.LEVEL:
        return at, entry_id
    created_ms, _, node_id = entry_id.partition("/")
    return at, int(created_ms or -1), node_id


def named_node(entry_id: str) -> str:
    """The node that an entry of CHILDREN, MADE, LEVEL or CREATED names."""
    return entry_id.rpartition("/")[2]
