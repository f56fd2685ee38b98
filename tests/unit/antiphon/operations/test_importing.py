"""Imports that are rejected. tests/contract/store/test_operations.py tests the result of imports."""

from __future__ import annotations

import pytest

from antiphon.operations.exporting import FORMAT, export
from antiphon.operations.files import OperationError
from antiphon.operations.importing import ROWS_AT_ONCE, import_lines
from antiphon.operations.rows_by_name import BATCH_BYTES
from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps, loads
from antiphon_store.service import StoreService
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import PROMPT, StoredTenant

HEADER = dumps({"format": FORMAT, "tenant": "acme"})
END = dumps({"rows": 0})


def ignore_progress(_count: int) -> None:
    """Ignores the progress."""


@pytest.fixture
async def lines(rows: MaintainedMemory, stored: StoredTenant) -> list[bytes]:
    found: list[bytes] = []
    await export(rows, rows.maintenance, stored.tenant, found.append, ignore_progress)
    return found


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "not an export"),
        ([b"PK\x03\x04"], "Line 1 of the export is not JSON"),
        ([b"[]"], "Line 1 of the export is not a JSON object"),
        ([dumps({"format": "antiphon-export-2", "tenant": "acme"}), END], "must name the format 'antiphon-export-1'"),
        ([HEADER], "cut off after 0 rows"),
        ([HEADER, dumps({"rows": 1})], "cut off after 0 rows"),
        ([HEADER, dumps({"tree": "t", "kind": "novelty", "id": "n", "fields": {}}), END], "Row 1 of the export"),
        ([HEADER, dumps({"tree": "t", "kind": "session", "fields": {}}), END], "Row 1 of the export"),
        ([HEADER, dumps({"tree": "t", "kind": "session", "id": "s", "fields": 7}), END], "Row 1 of the export"),
        ([HEADER, dumps({"tree": "t", "kind": "session", "id": "s", "fields": {}, "body": 7}), END], "Row 1 of the"),
        ([dumps({"format": FORMAT}), END], "names no tenant"),
        ([dumps({"format": FORMAT, "tenant": "a b"}), END], "names no tenant"),
    ],
)
async def test_an_invalid_export_is_rejected(empty: MaintainedMemory, given: list[bytes], says: str) -> None:
    with pytest.raises(OperationError, match=says):
        await import_lines(empty, empty.maintenance, given, ignore_progress)


async def test_an_export_that_is_cut_off_is_refused_and_can_be_completed(
    empty: MaintainedMemory, stored: StoredTenant, rows: MaintainedMemory, lines: list[bytes]
) -> None:
    with pytest.raises(OperationError, match=f"cut off after {len(lines) - 3} rows"):
        await import_lines(empty, empty.maintenance, [*lines[:-2], lines[-1]], ignore_progress)
    imported = await import_lines(empty, empty.maintenance, lines, ignore_progress, may_merge=True)
    assert sum(imported) == len(lines) - 2
    assert await stored.answers(StoreService(empty)) == await stored.answers(StoreService(rows))


async def test_a_node_without_its_parent_is_refused(empty: MaintainedMemory, lines: list[bytes]) -> None:
    given = [line for line in lines[:-1] if (loads(line).get("fields") or {}).get("depth") != 0]
    given.append(dumps({"rows": len(given) - 1}))
    with pytest.raises(OperationError, match="comes before its parent"):
        await import_lines(empty, empty.maintenance, given, ignore_progress)


async def test_a_tree_larger_than_one_batch_is_imported_completely(empty: MaintainedMemory) -> None:
    count = 3 * ROWS_AT_ONCE + 1
    rows = [dumps({"tree": "t", "kind": "session", "id": f"s{n}", "fields": {"fence": n}}) for n in range(count)]
    seen: list[int] = []
    imported = await import_lines(empty, empty.maintenance, [HEADER, *rows, dumps({"rows": count})], seen.append)
    assert imported == (count, 0)
    assert sum(seen) == count


async def test_imported_prompts_count_towards_the_limit(
    empty: MaintainedMemory, stored: StoredTenant, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (own, third) = StoreService(empty), (f"pmpt_{digit * 48}" for digit in "23")
    await store.put_prompt(stored.tenant, own, 1, b"{}")
    for _ in range(2):  # a repeated import adds none
        await import_lines(empty, empty.maintenance, lines, ignore_progress, may_merge=True)
    monkeypatch.setattr(limits, "STORED_PROMPTS_ITEMS_MAX", 2)
    with pytest.raises(InvalidRequest, match="which is the most"):
        await store.put_prompt(stored.tenant, third, 1, b"{}")
    await store.delete_prompt(stored.tenant, PROMPT)
    await store.put_prompt(stored.tenant, third, 1, b"{}")


async def test_large_rows_are_imported_a_few_at_a_time(empty: MaintainedMemory) -> None:
    large = "x" * (BATCH_BYTES // 2)
    rows = [dumps({"tree": f"t{n}", "kind": "session", "id": "s", "fields": {}, "body": large}) for n in range(5)]
    seen: list[int] = []
    imported = await import_lines(empty, empty.maintenance, [HEADER, *rows, dumps({"rows": 5})], seen.append)
    assert imported == (5, 0)
    assert seen == [2, 2, 1]
