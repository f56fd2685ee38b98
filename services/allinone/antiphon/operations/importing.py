"""Import of an export into any backend: each row is written by a decision, with its index entries.

An import does not change existing rows, so an interrupted import is continued by repeating it.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, cast

from antiphon.operations.entries import entries_of
from antiphon.operations.exporting import FORMAT
from antiphon.operations.files import OperationError
from antiphon.operations.rows_by_name import BATCH_BYTES
from antiphon_core.ids import is_tenant
from antiphon_core.jsons import loads
from antiphon_store.decisions import prompts
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.maintenance import Maintenance, Progress
from antiphon_store.rows.model import Condition, File, Grow, Kind, Partition, Ref, Row
from antiphon_store.rows.view import Finish, View, answer, nothing

ROWS_AT_ONCE = 500  # read together; their trees are written concurrently

_SET_BY_GROWING = ("v", "depth", "created", "updated")


class Imported(NamedTuple):
    """The number of rows that an import wrote, and of those that existed before."""

    written: int
    kept: int


class _Line(NamedTuple):
    tree: str
    ref: Ref
    row: Row


async def import_lines(
    rows: RowBackend,
    maintenance: Maintenance,
    lines: Iterable[bytes],
    on_progress: Progress,
    *,
    may_merge: bool = False,
) -> Imported:
    """Writes the rows of an export. `may_merge`: the tenant may have data.

    OperationError: the tenant has data, or the lines are not a complete export."""
    parsed = _parse_lines(lines)
    tenant = _tenant_of(next(parsed, {}))
    if not may_merge and [each async for each in maintenance.partitions(tenant)]:
        raise OperationError(f"Tenant '{tenant}' has data already. Give --merge to add to them.")
    imported = Imported(0, 0)
    for lines_ in _batches(_rows(parsed)):
        trees = [(Partition(tenant, tree), list(each)) for tree, each in groupby(lines_, key=lambda line: line.tree)]
        written = await asyncio.gather(*[_write(rows, *each) for each in trees], return_exceptions=True)
        for each in written:
            if isinstance(each, BaseException):
                raise each
            imported = Imported(imported.written + each.written, imported.kept + each.kept)
        on_progress(len(lines_))
    return imported


async def _write(rows: RowBackend, partition: Partition, lines: Iterable[_Line]) -> Imported:
    """Writes rows of one tree in order."""
    is_new = []
    for _tree, ref, exported in lines:
        row = _with_own_name(rows, ref, exported)
        node_id = _response_of(ref, row)
        if node_id is not None and await rows.decide(partition, partial(_is_deleted, node_id=node_id)):
            is_new.append(False)
            continue
        stored = await rows.decide(partition, partial(_add, ref=ref, row=row))
        is_new.append(stored is None)
        await rows.decide(partition, partial(_file_entries, ref=ref, row=stored or row))
    return Imported(sum(is_new), len(is_new) - sum(is_new))


def _with_own_name(rows: RowBackend, ref: Ref, row: Row) -> Row:
    """A row with its digest under the name that these rows have for it: the export of a store without encryption keys
    has it plain."""
    key = row.fields.get("key") if ref.kind is Kind.LINEAGE else None
    return row._replace(fields={**row.fields, "key": rows.digest_names(bytes.fromhex(key))[0]}) if key else row


def _response_of(ref: Ref, row: Row) -> str | None:
    """The response with which a row is deleted; None: the row is not deleted with one."""
    if ref.kind is Kind.APPROVAL:
        return cast(str, row.fields["response"])
    return ref.id if ref.kind is Kind.LINEAGE else None


def _is_deleted(view: View, node_id: str) -> Finish[bool]:
    row = view.need(Kind.NODE, node_id)
    return answer(row is not None and bool(row.fields["deleted"]))


def _add(view: View, ref: Ref, row: Row) -> Finish[Row | None]:
    """Writes a row unless it exists; returns the existing row, or None. OperationError: the parent is missing."""
    if not view.test(*ref, Condition.ABSENT):
        return answer(view.need(*ref))
    if ref.kind is not Kind.NODE:
        view.put(*ref, row.fields, row.items, row.body)
        if prompts.is_prompt(ref):
            prompts.add_to_count(view, 1)
        return nothing
    parent = row.fields["parent"]
    if parent is not None and not view.test(Kind.NODE, parent, Condition.PRESENT):
        raise OperationError(f"The export is damaged: '{ref.id}' comes before its parent '{parent}'.")
    fields = {name: value for name, value in row.fields.items() if name not in _SET_BY_GROWING}
    view.grow(Grow(ref.id, parent, fields, row.items, row.body))
    view.set(*ref, created=row.fields["created"], updated=row.fields["updated"])
    return nothing


def _file_entries(view: View, ref: Ref, row: Row) -> Finish[None]:
    """Files the index entries of a row after the row: those that `Grow` filed for a node move to their times."""
    for each in entries_of(ref, row):
        if isinstance(each, File):
            view.file(*each)
        else:
            view.unfile(*each)
    return nothing


def _parse_lines(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        try:
            value = loads(line)
        except ValueError as error:
            raise OperationError(f"Line {number} of the export is not JSON.") from error
        if not isinstance(value, dict):
            raise OperationError(f"Line {number} of the export is not a JSON object.")
        yield value


def _tenant_of(header: dict[str, Any]) -> str:
    if header.get("format") != FORMAT:
        raise OperationError(f"The file is not an export: its first line must name the format '{FORMAT}'.")
    tenant = header.get("tenant")
    if not (isinstance(tenant, str) and is_tenant(tenant)):
        raise OperationError("The export names no tenant in its first line.")
    return tenant


def _rows(parsed: Iterator[dict[str, Any]]) -> Iterator[_Line]:
    """Yields the rows before the last line, which has their number. OperationError."""
    count = 0
    for line in parsed:
        if "kind" not in line:
            if line.get("rows") != count:
                break
            return
        try:
            row = Row(dict(line["fields"]), _payload(line.get("items", "")), _payload(line.get("body", "")))
            found = _Line(line["tree"], Ref(Kind(line["kind"]), line["id"]), row)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise OperationError(f"Row {count + 1} of the export is not one that this release knows.") from error
        yield found
        count += 1
    raise OperationError(f"The export is cut off after {count} rows.")


def _batches(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    """Groups rows that are held in memory together: at most ROWS_AT_ONCE, and about BATCH_BYTES of payloads."""
    batch: list[_Line] = []
    used = 0
    for line in lines:
        batch.append(line)
        used += len(line.row.items) + len(line.row.body)
        if len(batch) == ROWS_AT_ONCE or used >= BATCH_BYTES:
            yield batch
            batch, used = [], 0
    if batch:
        yield batch


def _payload(value: Any) -> bytes:
    return b64decode(value["base64"]) if isinstance(value, dict) else value.encode()
