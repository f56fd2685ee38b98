"""What spending leaves in the tables. What it does: the suites of spending."""

from __future__ import annotations

import asyncio
import random

from antiphon_core import limits
from antiphon_core.clock import ManualClock
from antiphon_core.ports.spending import Draw, Hold, Spend
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.server import Connection

ONE = Draw("requests", amount=1, at_least=1, capacity=60, per_minute=60)


async def rows(connection: Connection, query: str) -> list[tuple[object, ...]]:
    return list(await (await connection.execute(query)).fetchall())


async def test_it_costs_one_statement_and_no_flush(
    backend: PostgresBackend, connection: Connection, statements: list[object]
) -> None:
    await backend.spend("t", Spend([ONE], Hold(["a"], 1_000)))
    assert len(statements) == 1
    query = "SELECT DISTINCT relpersistence FROM pg_class WHERE relname IN ('spending_bucket', 'spending_place')"
    assert await rows(connection, query) == [("u",)]


async def test_what_is_over_goes_with_what_others_spend(
    timed: PostgresBackend, connection: Connection, clock: ManualClock
) -> None:
    for number in range(6):
        await timed.spend(f"old-{number}", Spend([ONE], Hold(["a", "b"], 1_000)))
    await timed.spend("debtor", Spend([Draw("slow", amount=10_000, capacity=1, per_minute=1)]))
    clock.advance(limits.SPENDING_MEMORY_MS / 1000 + 3_600)
    for number in range(6):
        await timed.spend(f"new-{number}", Spend([ONE]))
    tenants = {f"new-{number}" for number in range(6)} | {"debtor"}
    assert {tenant for (tenant,) in await rows(connection, "SELECT tenant FROM spending_bucket")} == tenants
    assert await rows(connection, "SELECT tenant FROM spending_place") == []


async def test_nobody_is_in_anothers_way(backend: PostgresBackend, peer: PostgresBackend, conflicts: list[str]) -> None:
    """Many tenants, whose old places go while they take new ones."""
    rng = random.Random(3)

    async def spend(number: int) -> None:
        ids = [f"p{rng.randrange(20)}" for _ in range(3)]
        hold, release = Hold(list(dict.fromkeys(ids)), 100), [f"q{rng.randrange(20)}"]
        await (backend, peer)[number % 2].spend(f"tenant-{rng.randrange(4)}", Spend([ONE], hold, release))

    await asyncio.gather(*(spend(number) for number in range(400)))
    assert conflicts == []
