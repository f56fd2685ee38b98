"""How a turn begins where items were taken out: what it costs, and that it begins from what it has seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from antiphon_core.errors import ChainTooLong, InternalError
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import TurnRequest, TurnStart
from antiphon_store.backends.base import Write
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.turns import Beginning, _elsewhere
from antiphon_store.testing.subject import draft, turn_in

ID = f"conv_{'0' * 48}"
KEY: dict[str, Any] = {"idempotency_key": "k", "fingerprint": b"f" * 32}


def names(start: TurnStart) -> list[str]:
    return [item["id"] for item in loads(start.history.items)]


def addition(*ids: str) -> Addition:
    return Addition(dumps([{"id": each} for each in ids]), digest=dumps(ids).decode(), salt=dumps(ids).decode())


@pytest.fixture
async def conversation(backend: PostgresBackend) -> str:
    """One of three items, of which the middle one was taken out."""
    await backend.create_conversation("t", Founding(ID, b"{}", "origin", "first", addition("a", "b" * 1000, "c")))
    await backend.remove_item("t", ID, "b" * 1000)
    return ID


async def begin(backend: PostgresBackend, request: TurnRequest) -> TurnStart:
    if request.idempotency_key is None:
        return await backend.begin_turn("t", request)
    return await backend.begin_turn_once("t", request, claim_ttl_ms=60_000)


@pytest.mark.parametrize("options", [{}, KEY])
async def test_it_asks_twice(
    backend: PostgresBackend, conversation: str, statements: list[object], options: dict[str, Any]
) -> None:
    response_id = draft().id if options else None
    start = await begin(backend, turn_in(conversation, max_bytes=50, response_id=response_id, **options))
    assert (names(start), start.lease is not None) == (["a", "c"], True)
    assert len(statements) == 2


@pytest.mark.parametrize("options", [{}, KEY])
async def test_what_is_too_long_takes_no_lease_and_no_key(
    backend: PostgresBackend, conversation: str, options: dict[str, Any]
) -> None:
    response_id = draft().id if options else None
    too_short: list[dict[str, Any]] = [{"max_bytes": 9}, {"max_depth": 0}]
    for limits in too_short:
        with pytest.raises(ChainTooLong):
            await begin(backend, turn_in(conversation, response_id=response_id, **limits, **options))
    assert (await backend.describe_session("t", conversation)).last_fence == 0
    await backend.begin_turn_once("t", turn_in("s", response_id=draft().id, **KEY), claim_ttl_ms=60_000)


async def test_it_begins_from_what_it_has_seen(
    backend: PostgresBackend, peer: PostgresBackend, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens between the two questions."""
    deeds: list[Callable[[], Awaitable[object]]] = [
        lambda: peer.remove_item("t", conversation, "a"),
        lambda: peer.add_items("t", conversation, addition("d")),
        lambda: peer.remove_conversation("t", conversation),
    ]
    run = backend._run

    async def interrupted(*arguments: Any, **options: Any) -> Sequence[Any]:
        found = await run(*arguments, **options)
        if deeds and found[-1][0] == "edited":
            await deeds.pop(0)()
        return found

    monkeypatch.setattr(backend, "_run", interrupted)
    start = await backend.begin_turn("t", turn_in(conversation))
    assert deeds == []
    assert (names(start), start.history.head_id) == ([], None)
    assert start.lease is not None


async def test_a_session_that_is_no_conversation_asks_once(backend: PostgresBackend, statements: list[object]) -> None:
    lease = await backend.acquire_lease("t", "s", holder="holder-a", ttl_ms=60_000)
    record = draft(session_id="s")
    await backend.commit_turn("t", Write(record), lease.fence)
    statements.clear()
    assert (await backend.begin_turn("t", turn_in("s"))).history.head_id == record.id
    assert len(statements) == 1


def test_an_outcome_that_is_none_is_our_bug() -> None:
    with pytest.raises(InternalError):
        _elsewhere(Beginning.of([["nonsense", *[None] * 25]]), TurnRequest())
