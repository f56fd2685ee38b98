"""The kit runs on sealed rows as well (tests/contract/store); here is what lies in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from antiphon_core.errors import AntiphonError, InternalError
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.encryption.configured_rows import sealed
from antiphon_store.encryption.payload_cipher import FIELD_PREFIX, MAGIC, PayloadCipher
from antiphon_store.encryption.sealed_rows import SEALED_FIELDS, SealedRows
from antiphon_store.operations.verifying import verify
from antiphon_store.rows.maintenance import MaintainedRows
from antiphon_store.rows.model import Condition, Guard, Kind, Partition, Program, Put, Ref, Refused, Row
from antiphon_store.service import StoreService
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import StoredTenant

KEYS = SealingKeys.ephemeral()


@pytest.fixture
async def inner() -> MemoryRows:
    rows = MaintainedMemory()
    await rows.open()
    return rows


@pytest.fixture
async def stored(inner: MemoryRows) -> StoredTenant:
    tenant = StoredTenant("acme")
    await tenant.fill(StoreService(sealed(inner, KEYS)))
    return tenant


def damaged(field: str) -> str:
    """A sealed field with another byte in it."""
    middle = len(field) * 3 // 4
    return field[:middle] + ("A" if field[middle] != "A" else "B") + field[middle + 1 :]


def all_rows(rows: MemoryRows) -> list[tuple[Partition, Kind, Row]]:
    return [(at, ref.kind, row) for at, tree in rows.trees.items() for ref, row in tree.rows.items()]


async def test_no_payload_and_no_metadata_is_plain_in_the_database(inner: MemoryRows, stored: StoredTenant) -> None:
    found = all_rows(inner)
    payloads = [payload for _, _, row in found for payload in (row.items, row.body) if payload]
    assert len(payloads) > 10
    assert all(payload.startswith(MAGIC) for payload in payloads)
    fields = [row.fields.get(name) for _, kind, row in found for name in SEALED_FIELDS.get(kind, ())]
    told = [value for value in fields if value is not None]
    assert len(told) >= 2
    assert all(value.startswith(FIELD_PREFIX) for value in told)


async def test_what_is_stored_is_told_as_by_a_plain_store(inner: MemoryRows, stored: StoredTenant) -> None:
    told = await stored.answers(StoreService(sealed(inner, KEYS)))
    for partition, tree in inner.trees.items():  # the same rows, opened for good
        opened = sealed(inner, KEYS)
        tree.rows = {ref: opened._opened(partition, ref, row) for ref, row in tree.rows.items()}  # type: ignore[attr-defined]
    assert await stored.answers(StoreService(inner)) == told
    assert await stored.answers(StoreService(sealed(inner, KEYS))) == told  # a store that began without keys


async def test_rows_that_were_exchanged_in_the_database_are_an_error(inner: MemoryRows, stored: StoredTenant) -> None:
    nodes = [(tree, ref) for tree in inner.trees.values() for ref in tree.rows if ref.kind is Kind.NODE]
    (tree, one), (_, two) = nodes[:2]
    tree.rows[one], tree.rows[two] = tree.rows[two], tree.rows[one]
    with pytest.raises(InternalError, match="belongs to another row"):
        await StoreService(sealed(inner, KEYS)).get("acme", one.id)


async def test_without_the_key_nothing_is_given_out(inner: MemoryRows, stored: StoredTenant) -> None:
    for response in stored.line:
        with pytest.raises(AntiphonError):
            await StoreService(sealed(inner, SealingKeys.ephemeral())).get("acme", response.id)


async def test_operators_look_after_it_as_after_any(inner: MemoryRows, stored: StoredTenant) -> None:
    rows = sealed(inner, KEYS)
    assert isinstance(rows, MaintainedRows)
    assert [each async for each in verify(rows, rows.maintenance, "acme", lambda _count: None) if each.is_damage] == []
    assert not isinstance(sealed(MemoryRows(), KEYS), MaintainedRows)


async def test_large_row_of_a_refused_program_is_opened_in_a_thread(inner: MemoryRows) -> None:
    opened_in: list[threading.Thread] = []

    class Cipher(PayloadCipher):
        def open(self, stored: bytes, bound_to: bytes) -> bytes:
            opened_in.append(threading.current_thread())
            return super().open(stored, bound_to)

    rows, partition, ref = SealedRows(inner, Cipher(KEYS)), Partition("acme", "tree"), Ref(Kind.PROMPT, "one")
    await rows.transact(partition, Program(changes=[Put(ref, {}, body=b"a" * 2**17)]))
    refused = await rows.transact(partition, Program(guards=[Guard(ref, Condition.ABSENT)]))
    assert isinstance(refused, Refused)
    found = refused.rows[ref]
    assert found is not None
    assert found.body == b"a" * 2**17
    assert opened_in
    assert threading.main_thread() not in opened_in


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        (Kind.NODE, lambda row: row._replace(body=row.body[:-1] + bytes([row.body[-1] ^ 1]))),
        (Kind.BATCH, lambda row: row._replace(fields={**row.fields, "checkpoint": damaged(row.fields["checkpoint"])})),
        (
            Kind.CONVERSATION,
            lambda row: row._replace(fields={**row.fields, "metadata": damaged(row.fields["metadata"])}),
        ),
    ],
)
async def test_a_row_that_does_not_open_is_damage_and_the_others_are_looked_at(
    inner: MemoryRows, stored: StoredTenant, kind: Kind, spoil: Callable[[Row], Row]
) -> None:
    place, broken = next((tree, ref) for tree in inner.trees.values() for ref in tree.rows if ref.kind is kind)
    place.rows[broken] = spoil(place.rows[broken])
    rows = sealed(inner, KEYS)
    assert isinstance(rows, MaintainedRows)
    found = [each async for each in verify(rows, rows.maintenance, "acme", lambda _count: None)]
    assert [each.text for each in found if each.is_damage] == [f"{kind} {broken.id}: it cannot be read"]
