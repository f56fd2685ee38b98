"""The subject of the suites: a store, a second client of its data, and its clock."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from antiphon_core.ids import RandomIds, new_conversation_id, new_item_id, new_response_id, session_tag, tree_tag
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import History, Lease, Record, ResponseStore, Stamp, Status, TurnCommit, TurnRequest

SOON_S = 30.0  # the timeout for immediate events: long enough for a busy machine

_IDS = RandomIds()


@dataclass(frozen=True, slots=True)
class Subject:
    """One store under test.

    `store` and `peer` are two clients of the same data, as independent of each other as the implementation allows.
    `elapse` advances the store's clock by milliseconds, or waits if the clock cannot be set. A negative number sets the
    clock back. The tenant is new for every test, so that tests may share a database.
    """

    store: ResponseStore
    peer: ResponseStore
    elapse: Callable[[int], Awaitable[None]]
    tenant: str = field(default_factory=lambda: f"tenant-{secrets.token_hex(4)}")

    async def put(self, record: Record, **options: Any) -> Stamp:
        return await self.store.put(self.tenant, record, **options)

    async def get(self, record: Record) -> Record:
        return await self.store.get(self.tenant, record.id)

    async def delete(self, record: Record) -> None:
        await self.store.delete(self.tenant, record.id)

    async def begin_after(self, record: Record, **options: Any) -> bytes:
        """The history of a turn that continues `record`."""
        request = TurnRequest(previous_response_id=record.id, **options)
        return (await self.store.begin_turn(self.tenant, request)).history.items

    async def put_line(self, length: int, *, parent: Record | None = None) -> list[Record]:
        """Puts `length` responses, each of which continues the one before."""
        line: list[Record] = []
        for _ in range(length):
            parent = draft(parent)
            await self.put(parent)
            line.append(parent)
        return line

    async def begin_in(self, session_id: str, **options: Any) -> tuple[History, Lease]:
        """Begins a turn in a session, which takes its lease."""
        start = await self.store.begin_turn(self.tenant, turn_in(session_id, **options))
        assert start.lease is not None
        return start.history, start.lease

    async def commit_in(self, session_id: str, parent: Record | None = None, **options: Any) -> Record:
        """Begins and commits a turn in a session, and returns its response."""
        _history, lease = await self.begin_in(session_id)
        record = draft(parent, session_id=session_id, tag=f"conv_{session_tag(self.tenant, session_id)}{'0' * 32}")
        await self.store.commit_turn(self.tenant, TurnCommit(record, lease.fence, **options))
        return record


def draft(parent: Record | None = None, *, text: str = "", tag: str | None = None, **members: Any) -> Record:
    """Makes a new response. It is in the tree of its parent, else in that of `tag` (a response or session id), else in
    that of its session."""
    relative = parent.id if parent else tag or members.get("session_id")
    response_id = new_response_id(_IDS, relative=relative)
    said, answered = (new_item_id(_IDS, "msg", relative=response_id) for _ in range(2))
    defaults: dict[str, Any] = {
        "status": Status.COMPLETED,
        "body": dumps({"id": response_id, "model": "m", "unknown_member": {"kept": True}}),
        "input_items": dumps([{"id": said, "type": "message", "content": text or "ü"}]),
        "output_items": dumps([{"id": answered, "type": "message", "content": "ok"}]),
        "parent_id": parent.id if parent else None,
    }
    return Record(id=response_id, **defaults | members)


def new_session_id(beside: str | None = None) -> str:
    """Makes a session id in the tree of a response or session, or in a new tree. `draft` puts responses of the session
    into that tree, as the store requires."""
    session_id = new_conversation_id(_IDS)
    tags = (tree_tag(session_id), tree_tag(beside or session_id))
    return session_id.replace(tags[0] or "", tags[1] or "", 1)


def untagged_session_id() -> str:
    """Makes a session id that names no tree."""
    return f"session-{secrets.token_hex(8)}"


def turn_in(session_id: str, *, holder: str = "holder-a", **options: Any) -> TurnRequest:
    return TurnRequest(session_id=session_id, holder=holder, **options)


def content(record: Record) -> tuple[object, ...]:
    """The fields of a record that its writer decides, without those that the store sets."""
    return (
        record.id,
        record.status,
        record.body,
        record.input_items,
        record.output_items,
        record.parent_id,
        record.session_id,
    )
