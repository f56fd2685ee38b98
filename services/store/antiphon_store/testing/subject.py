"""The subject of the suites: a store, a second way to the same data, and time that can be let pass."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from antiphon_core.ids import RandomIds, new_conversation_id, new_response_id, session_tag, tree_tag
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import History, Lease, Record, ResponseStore, Stamp, Status, TurnCommit, TurnRequest

SOON_S = 30.0  # what comes at once may take so long on a busy machine, and what never comes takes longer

_IDS = RandomIds()


@dataclass(frozen=True, slots=True)
class Subject:
    """One store under test.

    `store` and `peer` are two clients of the same data, as independent of each other as the implementation allows.
    `elapse` lets so many milliseconds pass by the store's clock: moved by hand where it can be, waited for elsewhere.
    A negative number sets the clock back.
    The tenant is new for every test, so that tests may share an engine.
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
        """So many responses, each the continuation of the one before."""
        line: list[Record] = []
        for _ in range(length):
            parent = draft(parent)
            await self.put(parent)
            line.append(parent)
        return line

    async def begin_in(self, session_id: str, **options: Any) -> tuple[History, Lease]:
        """The begin of a turn in a session, which comes with a lease."""
        start = await self.store.begin_turn(self.tenant, turn_in(session_id, **options))
        assert start.lease is not None
        return start.history, start.lease

    async def commit_in(self, session_id: str, parent: Record | None = None, **options: Any) -> Record:
        """One whole turn in a session: the response that it committed."""
        _history, lease = await self.begin_in(session_id)
        record = draft(parent, session_id=session_id, tag=f"conv_{session_tag(self.tenant, session_id)}{'0' * 32}")
        await self.store.commit_turn(self.tenant, TurnCommit(record, lease.fence, **options))
        return record


def draft(parent: Record | None = None, *, text: str = "", tag: str | None = None, **members: Any) -> Record:
    """A response to be stored, unlike any other. Its tree is that of its parent, else that of `tag` (a response or
    session id), else that of its session."""
    relative = parent.id if parent else tag or members.get("session_id")
    response_id = new_response_id(_IDS, relative=relative)
    unique = response_id[-12:]
    defaults: dict[str, Any] = {
        "status": Status.COMPLETED,
        "body": dumps({"id": response_id, "model": "m", "unknown_member": {"kept": True}}),
        "input_items": dumps([{"id": f"msg_in_{unique}", "type": "message", "content": text or "ü"}]),
        "output_items": dumps([{"id": f"msg_out_{unique}", "type": "message", "content": "ok"}]),
        "parent_id": parent.id if parent else None,
    }
    return Record(id=response_id, **defaults | members)


def new_session_id(beside: str | None = None) -> str:
    """A session in the tree of a response or session, or in one of its own. `draft` puts its responses there, so that
    all goes together where trees are apart."""
    session_id = new_conversation_id(_IDS)
    tags = (tree_tag(session_id), tree_tag(beside or session_id))
    return session_id.replace(tags[0] or "", tags[1] or "", 1)


def untagged_session_id() -> str:
    """A session whose name says nothing of trees."""
    return f"session-{secrets.token_hex(8)}"


def turn_in(session_id: str, *, holder: str = "holder-a", **options: Any) -> TurnRequest:
    return TurnRequest(session_id=session_id, holder=holder, **options)


def content(record: Record) -> tuple[object, ...]:
    """The parts of a record that its writer decides; the rest is the store's."""
    return (
        record.id,
        record.status,
        record.body,
        record.input_items,
        record.output_items,
        record.parent_id,
        record.session_id,
    )
