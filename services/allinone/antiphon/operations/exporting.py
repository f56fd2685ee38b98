"""Export of all rows of one tenant as JSON lines, tree by tree, parents before their children.

    {"format": "antiphon-export-1", "tenant": "acme"}
    {"tree": "0f…", "kind": "node", "id": "resp_0f…", "fields": {…}, "items": "{…},{…}", "body": "{…}"}
    …
    {"rows": 2}

Payloads are text, or base64 if they are not UTF-8. Index entries and the number of prompts are left out, because an
import computes them from the rows. The state of the tenant's quotas is left out, too. A row that cannot be decrypted
is left out, except a node: it is exported without its payloads, and stays damaged, because its children need it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from antiphon.operations.rows_by_name import rows_of, whole_rows_of
from antiphon_core.jsons import dumps
from antiphon_store.decisions import prompts
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.maintenance import Maintenance, Name, Progress
from antiphon_store.rows.model import VOLATILE_TREES, Kind, Partition, Payload, Ref, Row

FORMAT = "antiphon-export-1"


async def export(
    rows: RowBackend, maintenance: Maintenance, tenant: str, write: Callable[[bytes], Any], on_progress: Progress
) -> int:
    """Writes the lines of an export, and returns the number of rows."""
    count = 0
    write(dumps({"format": FORMAT, "tenant": tenant}) + b"\n")
    async for partition in maintenance.partitions(tenant):
        if partition.tree in VOLATILE_TREES:
            continue
        async for ref, row in _tree(rows, maintenance, partition):
            write(dumps(_line(partition.tree, ref, row)) + b"\n")
            count += 1
            on_progress(1)
    write(dumps({"rows": count}) + b"\n")
    return count


async def _tree(rows: RowBackend, maintenance: Maintenance, partition: Partition) -> AsyncIterator[tuple[Ref, Row]]:
    """Reads the rows of a tree, which may change meanwhile. A row is read before the rows that it names, so that they
    exist: nodes come after sessions and jobs, batches after their logs. Events that a log gets meanwhile are left
    out."""
    names: Sequence[Name] = [each for each in await maintenance.names(partition) if each.ref != prompts.COUNT]
    ends: dict[str, int] = {}
    async for ref, row in whole_rows_of(rows, partition, [each for each in names if each.ref.kind not in _LATER]):
        if ref.kind is Kind.LOG:
            ends[ref.id] = row.fields["next"]
        yield ref, row
    names = await maintenance.names(partition)
    batches = sorted(each for each in names if each.ref.kind is Kind.BATCH)
    async for ref, row in whole_rows_of(rows, partition, batches):
        log_id, _, number = ref.id.rpartition("/")
        if int(number) < ends.get(log_id, 0):
            yield ref, row
    ordered = await _by_depth(rows, partition, [each for each in names if each.ref.kind is Kind.NODE])
    async for ref, row in whole_rows_of(rows, partition, ordered):
        yield ref, row


_LATER = (Kind.NODE, Kind.BATCH)


async def _by_depth(rows: RowBackend, partition: Partition, names: Sequence[Name]) -> list[Name]:
    """Nodes by depth, with all their ancestors, even those that are not in `names`."""
    depths: dict[Name, int] = {}
    known = {each.ref.id for each in names}
    while names:
        sizes = {each.ref: each for each in names}
        parents = set()
        async for ref, row in rows_of(rows, partition, names, Payload.NONE):
            depths[sizes[ref]] = row.fields["depth"]
            parents.add(row.fields["parent"])
        names = [Name(Ref(Kind.NODE, each), 0) for each in parents - known - {None}]
        known |= parents
    return sorted(depths, key=lambda name: (depths[name], name))


def _line(tree: str, ref: Ref, row: Row) -> dict[str, Any]:
    line = {"tree": tree, "kind": ref.kind.value, "id": ref.id, "fields": dict(row.fields)}
    return line | {name: _text(payload) for name, payload in (("items", row.items), ("body", row.body)) if payload}


def _text(payload: bytes) -> Any:
    """A payload as JSON: a string, or an object for bytes that are not UTF-8."""
    try:
        return bytes(payload).decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(payload).decode()}
