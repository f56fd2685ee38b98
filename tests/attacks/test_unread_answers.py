"""Attack 14: calls for large answers that the caller never reads. 200 of them, over one connection, held 7.3 GB of a
store. The server holds a share of its budget for one caller, and answers others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import STORE
from tests.support.grpc_flood import Flood, flood
from tests.support.guarded_store import ATTACKER, GuardedStore, guarded_store
from tests.support.waiting import until

MIB = 2**20
ANSWER = MIB + 1000
CALLS = 12
HELD = 4
"""The answers that the share of one caller has room for."""
UNAVAILABLE = str(grpc.StatusCode.UNAVAILABLE.value[0])
LIMITS = IntakeLimits(bytes_max=2 * (HELD + 1) * MIB, caller_bytes_max=(HELD + 1) * MIB)
RECORD = "resp_" + "5" * 48
LOG = "resp_" + "6" * 48
EVENTS = STORE.methods["ReadEvents"]


async def fill(store: GuardedStore) -> None:
    """Writes one large record and one large event log of each tenant."""
    put, append = STORE.methods["PutResponseRecord"], STORE.methods["AppendEvents"]
    body = b'{"text": "%s"}' % (b"x" * MIB)
    frames = b"data: " + b"x" * MIB + b"\n\n"
    for client, tenant in ((store.attacker, "acme"), (store.victim, "globex")):
        record = {"id": RECORD, "status": 3, "body": body}
        await client.call(put.name, put.request.message(record=record), tenant=tenant)
        appended = append.request.message(response_id=LOG, count=1, frames=frames)
        await client.call(append.name, appended, tenant=tenant)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[GuardedStore]:
    async with guarded_store(tmp_path / "credentials", LIMITS, role="gateway") as store:
        await fill(store)
        yield store


def begin(opened: Flood, method: str, count: int) -> None:
    """Sends calls of the attacker whose answers are never read."""
    called = STORE.methods[method]
    named = {"response_id": LOG} if method == EVENTS.name else {"id": RECORD}
    metadata = [("authorization", f"Bearer {ATTACKER}"), ("antiphon-tenant", "acme")]
    for _ in range(count):
        opened.ask(called.path, called.request.message(**named).SerializeToString(), metadata)


def rejected(opened: Flood) -> int:
    return sum(each.status == UNAVAILABLE for each in opened.sendings.values())


@pytest.mark.parametrize("method", ["GetResponseRecord", "GetChain", EVENTS.name])
async def test_unread_answers_beyond_the_share_of_a_caller_are_rejected(served: GuardedStore, method: str) -> None:
    budget = served.server._delivery.budget
    async with flood(served.port, answer_window=0) as opened:
        begin(opened, method, CALLS)
        await until(lambda: rejected(opened) == CALLS - HELD, "the calls beyond the share have ended")
        assert not budget.is_unused
        get = STORE.methods["GetResponseRecord"]
        answered = await served.victim.call(get.name, get.request.message(id=RECORD), tenant="globex")
        assert len(answered.record.body) > MIB
    await until(lambda: budget.is_unused, "the budget is given back")
