from __future__ import annotations

from antiphon.operations.rows_by_name import BATCH_BYTES, BATCH_ROWS, rows_of
from antiphon_store.rows.maintenance import Name
from antiphon_store.rows.model import Kind, Partition, Payload, Program, Put, Ref
from tests.support.rows import SpiedRows

HERE = Partition("t", "tree")


async def test_rows_are_read_in_batches_without_missing_rows() -> None:
    rows = SpiedRows()
    await rows.open()
    names = [Name(Ref(Kind.SESSION, f"s{number}"), 10) for number in range(2 * BATCH_ROWS + 1)]
    await rows.transact(HERE, Program(changes=[Put(each.ref, {"n": 1}) for each in names[1:]]))
    rows.forget_calls()
    found = [ref async for ref, _ in rows_of(rows, HERE, names)]
    assert found == [each.ref for each in names[1:]]
    assert [len(program.reads) for _, program in rows.programs] == [BATCH_ROWS, BATCH_ROWS, 1]


async def test_large_rows_make_small_batches() -> None:
    rows = SpiedRows()
    await rows.open()
    half = BATCH_BYTES // 2
    names = [Name(Ref(Kind.JOB, f"j{number}"), size) for number, size in enumerate([half, half, 3 * half, 1, 1])]
    assert [each async for each in rows_of(rows, HERE, names)] == []
    assert [len(program.reads) for _, program in rows.programs] == [2, 1, 2]
    rows.forget_calls()
    assert [each async for each in rows_of(rows, HERE, names, Payload.NONE)] == []
    assert [len(program.reads) for _, program in rows.programs] == [5]


async def test_row_sizes_do_not_limit_batches_without_payloads() -> None:
    rows = SpiedRows()
    await rows.open()
    names = [Name(Ref(Kind.JOB, f"j{number}"), 2 * BATCH_BYTES) for number in range(BATCH_ROWS + 2)]
    assert [each async for each in rows_of(rows, HERE, names, Payload.NONE)] == []
    assert [len(program.reads) for _, program in rows.programs] == [BATCH_ROWS, 2]
