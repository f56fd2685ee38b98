"""The database of a store with sealed rows. tests/contract/store runs the kit on sealed rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import pytest

from antiphon.operations.exporting import export
from antiphon.operations.importing import import_lines
from antiphon.operations.verifying import verify
from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, IdempotencyMismatch, InternalError
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import dumps
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, Step, StepKind
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.store import (
    LINEAGE_KEY_BYTES,
    ApprovalDraft,
    Precondition,
    Record,
    Status,
    TurnCommit,
    TurnRequest,
)
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.encryption import sealed_rows
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.encryption.payload_cipher import FIELD_PREFIX, MAGIC, PayloadCipher
from antiphon_store.encryption.sealed_rows import SEALED_FIELDS, SealedRows
from antiphon_store.rows import view
from antiphon_store.rows.maintenance import MaintainedRows
from antiphon_store.rows.model import Condition, Guard, Index, Kind, Partition, Program, Put, Ref, Rejection, Row
from antiphon_store.service import StoreService
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import KEY, PROMPT, StoredTenant

KEYS = SealingKeys.ephemeral()


@pytest.fixture
async def inner() -> MemoryRows:
    rows = MaintainedMemory()
    await rows.open()
    return rows


@pytest.fixture
async def stored(inner: MemoryRows) -> StoredTenant:
    tenant = StoredTenant("acme")
    await tenant.fill(StoreService(seal_rows(inner, KEYS)))
    return tenant


def damaged(field: str) -> str:
    """A sealed field with another byte in it."""
    middle = len(field) * 3 // 4
    return field[:middle] + ("A" if field[middle] != "A" else "B") + field[middle + 1 :]


def all_rows(rows: MemoryRows) -> list[tuple[Partition, Kind, Row]]:
    return [(at, ref.kind, row) for at, tree in rows.trees.items() for ref, row in tree.rows.items()]


async def test_payloads_and_metadata_are_sealed_in_the_database(inner: MemoryRows, stored: StoredTenant) -> None:
    found = all_rows(inner)
    payloads = [payload for _, _, row in found for payload in (row.items, row.body) if payload]
    assert len(payloads) > 10
    assert all(payload.startswith(MAGIC) for payload in payloads)
    fields = [row.fields.get(name) for _, kind, row in found for name in SEALED_FIELDS.get(kind, ())]
    told = [value for value in fields if value is not None]
    assert len(told) >= 2
    assert all(value.startswith(FIELD_PREFIX) for value in told)


@dataclass
class Secretive:
    """A tenant whose content holds a secret. Two of them with equal seeds differ in nothing else."""

    secret: str
    seed: int
    number: int = 0

    def id(self, kind: str = "resp") -> str:
        self.number += 1
        return f"{kind}_{'a' * 16}{self.seed:08d}{self.number:024d}"

    def record(self, parent: str | None = None, status: Status = Status.COMPLETED) -> Record:
        items = dumps([{"id": self.id("msg"), "type": "message", "content": self.secret}])
        body = dumps({"object": "response", "instructions": self.secret})
        return Record(self.id(), status, body, items, items, parent)

    async def fill(self, store: StoreService) -> None:
        tenant, secret = "acme", self.secret
        root = self.record()
        await store.put(tenant, root, idempotency_key="put")
        child, fingerprint = self.record(root.id), sha256(secret.encode()).digest()
        asked = TurnRequest(idempotency_key="turn", fingerprint=fingerprint, response_id=child.id)
        await store.begin_turn(tenant, asked)
        asked_for = [ApprovalDraft(self.id("mcpr"), secret.encode())]
        turn = TurnCommit(
            child,
            idempotency_key="turn",
            lineage=secret.encode(),
            lineage_key=fingerprint[:LINEAGE_KEY_BYTES],
            approvals=asked_for,
        )
        await store.commit_turn(tenant, turn)
        running = self.record(child.id, Status.IN_PROGRESS)
        await store.put(tenant, running)
        frames = f"data: {secret}\n\n".encode()
        checkpoint = Checkpoint(0, tuple(secret.encode()))
        steps = [Step(1, StepKind.INTENT, data=secret.encode())]
        await store.append_events(tenant, EventAppend(running.id, 0, 1, frames, checkpoint=checkpoint, steps=steps))
        await store.enqueue_job(tenant, JobDraft(running.id, "q", secret.encode()))
        talk, metadata = self.id("conv"), dumps({"pin": secret})
        await store.create_conversation(tenant, conversation_id=talk, metadata=metadata, items=root.input_items)
        await store.add_conversation_items(tenant, talk, self.record().input_items)
        await store.put_prompt(tenant, PROMPT, 1, secret.encode())


def plain_parts(rows: MemoryRows) -> dict[tuple[Partition, Ref], Any]:
    """The plain parts of each row in the database: its fields that are not sealed, and payloads without the seal. The
    keys of lineages are left out: they are an HMAC."""

    def is_plain(ref: Ref, name: str, value: Any) -> bool:
        is_sealed = isinstance(value, str) and value.startswith(FIELD_PREFIX)
        return not is_sealed and (ref.kind, name) != (Kind.LINEAGE, "key")

    return {
        (partition, ref): (
            {name: value for name, value in row.fields.items() if is_plain(ref, name, value)},
            [payload for payload in (row.items, row.body) if payload and not payload.startswith(MAGIC)],
        )
        for partition, tree in rows.trees.items()
        for ref, row in tree.rows.items()
    }


def resent_keys(rows: MemoryRows) -> set[str]:
    """The keys of the index of lineages."""
    return {key for _tenant, of, key in rows.tenant_wide if of is Index.RESENT}


async def test_nothing_that_is_plain_in_the_database_depends_on_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PIN was found within a second by the checksum of its response, and by the fingerprint of its request."""
    monkeypatch.setattr(view, "_first_version", lambda: 1)
    seen = []
    for secret in ("my PIN is 4711", "my PIN is 0815"):
        rows = MemoryRows(ManualClock())
        await rows.open()
        await Secretive(secret, seed=1).fill(StoreService(seal_rows(rows, KEYS), ids=SequentialIds()))
        seen.append(plain_parts(rows))
        digest = sha256(secret.encode()).digest()[:LINEAGE_KEY_BYTES]
        assert len(resent_keys(rows)) == 1
        assert digest.hex() not in resent_keys(rows)
    without_content = {Kind.POINTER, Kind.LINE, Kind.QUOTA}
    assert {ref.kind for _, ref in seen[0]} == set(Kind) - without_content
    assert seen[0] == seen[1]


async def test_digests_that_were_stored_before_they_were_sealed_still_compare(
    inner: MemoryRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {Kind.NODE: (), Kind.CONVERSATION: ("metadata",), Kind.BATCH: ("checkpoint",), Kind.KEY: ()}
    with monkeypatch.context() as former:
        former.setattr(sealed_rows, "SEALED_FIELDS", digests)
        tenant = StoredTenant("acme")
        await tenant.fill(StoreService(seal_rows(inner, KEYS)))
        told = await tenant.answers(StoreService(seal_rows(inner, KEYS)))
        crcs = [row.fields["items_crc"] for _, kind, row in all_rows(inner) if kind is Kind.NODE]
        assert all(isinstance(each, int) for each in crcs)
    assert await tenant.answers(StoreService(seal_rows(inner, KEYS))) == told
    await StoreService(seal_rows(inner, KEYS)).put("acme", tenant.branch, precondition=Precondition(version=2))
    repeated = replace(keyed_request(tenant.once, key=KEY), fingerprint=b"x" * 32)
    with pytest.raises(IdempotencyMismatch):
        await StoreService(seal_rows(inner, KEYS)).begin_turn("acme", repeated)


async def test_digests_compare_after_the_key_was_rotated(inner: MemoryRows, stored: StoredTenant) -> None:
    newer = SealingKeys.ephemeral()
    both = SealingKeys("newer", {"newer": next(iter(newer.keys.values())), **KEYS.keys})
    store = StoreService(seal_rows(inner, both))
    assert (await store.begin_turn("acme", keyed_request(stored.once, key=KEY))).replay is not None
    repeated = replace(keyed_request(stored.once, key=KEY), fingerprint=b"x" * 32)
    with pytest.raises(IdempotencyMismatch):
        await store.begin_turn("acme", repeated)


async def test_a_lineage_is_found_after_the_key_was_rotated(inner: MemoryRows) -> None:
    newer, key = SealingKeys.ephemeral(), b"k" * LINEAGE_KEY_BYTES
    both = SealingKeys("newer", {**KEYS.keys, "newer": next(iter(newer.keys.values()))})
    written = TurnCommit(draft(), lineage=b"lineage", lineage_key=key)
    await StoreService(seal_rows(inner, KEYS)).commit_turn("acme", written)
    store, request = StoreService(seal_rows(inner, both)), TurnRequest(lineage_keys=(key,))
    assert (await store.begin_turn("acme", request)).found_lineage == b"lineage"
    former = resent_keys(inner)
    await store.commit_turn("acme", replace(written, record=draft()))
    assert len(resent_keys(inner) - former) == 1, "the newest key names what is written now"


async def test_imported_lineage_of_a_plain_store_is_found_under_no_plain_digest(inner: MemoryRows) -> None:
    plain, key, lines = MaintainedMemory(), b"k" * LINEAGE_KEY_BYTES, list[bytes]()
    await plain.open()
    await StoreService(plain).commit_turn("acme", TurnCommit(draft(), lineage=b"lineage", lineage_key=key))
    await export(plain, plain.maintenance, "acme", lines.append, lambda _count: None)
    rows = seal_rows(inner, KEYS)
    assert isinstance(rows, MaintainedRows)
    await import_lines(rows, rows.maintenance, lines, lambda _count: None)
    assert (await StoreService(rows).begin_turn("acme", TurnRequest(lineage_keys=(key,)))).found_lineage == b"lineage"
    assert key.hex() not in resent_keys(inner)


async def test_a_sealed_store_answers_like_a_plain_store(inner: MemoryRows, stored: StoredTenant) -> None:
    told = await stored.answers(StoreService(seal_rows(inner, KEYS)))
    for partition, tree in inner.trees.items():  # replaces the sealed rows by opened ones
        opened = seal_rows(inner, KEYS)
        tree.rows = {ref: opened._open(partition, ref, row) for ref, row in tree.rows.items()}  # type: ignore[attr-defined]
    assert await stored.answers(StoreService(inner)) == told
    assert await stored.answers(StoreService(seal_rows(inner, KEYS))) == told  # plain rows, read with keys


async def test_rows_that_were_exchanged_in_the_database_are_an_error(inner: MemoryRows, stored: StoredTenant) -> None:
    nodes = [(tree, ref) for tree in inner.trees.values() for ref in tree.rows if ref.kind is Kind.NODE]
    (tree, one), (_, two) = nodes[:2]
    tree.rows[one], tree.rows[two] = tree.rows[two], tree.rows[one]
    with pytest.raises(InternalError, match="belongs to another row"):
        await StoreService(seal_rows(inner, KEYS)).get("acme", one.id)


async def test_responses_cannot_be_read_without_their_key(inner: MemoryRows, stored: StoredTenant) -> None:
    for response in stored.line:
        with pytest.raises(AntiphonError):
            await StoreService(seal_rows(inner, SealingKeys.ephemeral())).get("acme", response.id)


async def test_sealed_rows_of_a_maintained_backend_can_be_verified(inner: MemoryRows, stored: StoredTenant) -> None:
    rows = seal_rows(inner, KEYS)
    assert isinstance(rows, MaintainedRows)
    assert [each async for each in verify(rows, rows.maintenance, "acme", lambda _count: None) if each.is_damage] == []
    assert not isinstance(seal_rows(MemoryRows(), KEYS), MaintainedRows)


async def test_a_damaged_lineage_is_none_and_fails_no_turn(inner: MemoryRows, stored: StoredTenant) -> None:
    store, last = StoreService(seal_rows(inner, KEYS)), stored.line[-1]
    request = TurnRequest(previous_response_id=last.id, wants_lineage=True)
    lineages = [f"lineage of {each.id}".encode() for each in stored.line]
    assert list((await store.begin_turn("acme", request)).history.lineages) == lineages
    (tree,) = [tree for tree in inner.trees.values() if Ref(Kind.LINEAGE, last.id) in tree.rows]
    row = tree.rows[Ref(Kind.LINEAGE, last.id)]
    tree.rows[Ref(Kind.LINEAGE, last.id)] = row._replace(items=row.items[:-1] + bytes([row.items[-1] ^ 1]))
    assert list((await store.begin_turn("acme", request)).history.lineages) == [*lineages[:-1], b""]


async def test_an_older_lineage_is_found_behind_a_damaged_one(inner: MemoryRows) -> None:
    store, key = StoreService(seal_rows(inner, KEYS)), b"k" * LINEAGE_KEY_BYTES
    older, newer = (TurnCommit(draft(), lineage=each, lineage_key=key) for each in (b"older", b"newer"))
    for each in (older, newer):
        await store.commit_turn("acme", each)
    (tree,) = [tree for tree in inner.trees.values() if Ref(Kind.LINEAGE, newer.record.id) in tree.rows]
    row = tree.rows[Ref(Kind.LINEAGE, newer.record.id)]
    tree.rows[Ref(Kind.LINEAGE, newer.record.id)] = row._replace(items=row.items[:-1] + bytes([row.items[-1] ^ 1]))
    assert (await store.begin_turn("acme", TurnRequest(lineage_keys=(key,)))).found_lineage == b"older"


async def test_large_row_of_a_refused_program_is_opened_in_a_thread(inner: MemoryRows) -> None:
    opened_in: list[threading.Thread] = []

    class Cipher(PayloadCipher):
        def open(self, stored: bytes, bound_to: bytes) -> bytes:
            opened_in.append(threading.current_thread())
            return super().open(stored, bound_to)

    rows, partition, ref = SealedRows(inner, Cipher(KEYS)), Partition("acme", "tree"), Ref(Kind.PROMPT, "one")
    await rows.transact(partition, Program(changes=[Put(ref, {}, body=b"a" * 2**17)]))
    refused = await rows.transact(partition, Program(guards=[Guard(ref, Condition.ABSENT)]))
    assert isinstance(refused, Rejection)
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
async def test_a_row_that_cannot_be_opened_is_reported_as_the_only_damage(
    inner: MemoryRows, stored: StoredTenant, kind: Kind, spoil: Callable[[Row], Row]
) -> None:
    place, broken = next((tree, ref) for tree in inner.trees.values() for ref in tree.rows if ref.kind is kind)
    place.rows[broken] = spoil(place.rows[broken])
    rows = seal_rows(inner, KEYS)
    assert isinstance(rows, MaintainedRows)
    found = [each async for each in verify(rows, rows.maintenance, "acme", lambda _count: None)]
    assert [each.text for each in found if each.is_damage] == [f"{kind} {broken.id}: it cannot be read"]
