from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from psycopg import errors

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.postgres import connections as module
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.server import Connection, conninfo_of


async def nothing(_connection: Connection) -> None:
    pass


async def answer(connection: Connection) -> int:
    row = await (await connection.execute("SELECT 42")).fetchone()
    assert row is not None
    return int(row[0])


def sleep(seconds: float) -> module.Atom[object]:
    return lambda connection: connection.execute("SELECT pg_sleep(%s)", [seconds])


@pytest.fixture
async def connections(url: str) -> AsyncIterator[Connections]:
    connections = Connections(conninfo_of(url), configure=nothing)
    await connections.open()
    yield connections
    await connections.close()


async def test_atoms_run_concurrently_on_all_connections(connections: Connections) -> None:
    """Two rounds of atoms, each with as many atoms as connections, wait for one another."""
    together = asyncio.Barrier(module.CONNECTIONS_MAX)

    async def meet(connection: Connection) -> int:
        await together.wait()
        return await answer(connection)

    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(connections.run(meet) for _ in range(2 * module.CONNECTIONS_MAX)))
    assert answers == [42] * len(answers)


async def test_a_transaction_conflict_is_reported_as_unavailable(connections: Connections) -> None:
    async def loses(_connection: Connection) -> None:
        raise errors.DeadlockDetected

    with pytest.raises(StoreUnavailable, match="transactions conflicted"):
        await connections.run(loses)


async def test_an_error_of_the_statement_leaves_the_connection_usable(connections: Connections) -> None:
    with pytest.raises(InternalError):
        await connections.run(lambda connection: connection.execute("SELECT 1 / 0"))
    assert await connections.run(answer) == 42


async def test_an_atom_over_its_timeout_is_unavailable(connections: Connections) -> None:
    with pytest.raises(StoreUnavailable, match="in time"):
        await connections.run(sleep(20), timeout_s=0.05)
    assert await connections.run(answer) == 42


async def test_a_caller_that_gives_up_ends_its_statement(connections: Connections) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await connections.run(sleep(20))
    async with asyncio.timeout(6):  # less than the server's own timeout of a statement
        await connections.close()  # waits for running statements


async def test_closing_lets_running_atoms_end(connections: Connections) -> None:
    running = asyncio.create_task(connections.run(sleep(0.1)))
    await asyncio.sleep(0.02)
    await connections.close()
    assert running.done()
    with pytest.raises(StoreUnavailable, match="not open"):
        await connections.run(answer)


async def test_a_connection_that_died_while_idle_is_not_used(connections: Connections) -> None:
    async def end_all(connection: Connection) -> None:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND application_name = 'antiphon-store'"
        )

    async def others(connection: Connection) -> int:
        row = await (
            await connection.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND application_name = 'antiphon-store'"
            )
        ).fetchone()
        assert row is not None
        return int(row[0])

    other = Connections(conninfo_of(connections._conninfo), configure=nothing)
    await other.open()
    assert await connections.run(answer) == 42
    await other.run(end_all)
    async with asyncio.timeout(30):
        while await other.run(others):
            await asyncio.sleep(0.01)
    assert await connections.run(answer) == 42
    await other.close()


async def test_a_failed_check_at_open_raises_its_error(url: str) -> None:
    async def refuse(_connection: Connection) -> None:
        raise StoreUnavailable("Not this one.")

    connections = Connections(conninfo_of(url), configure=nothing)
    with pytest.raises(StoreUnavailable, match="Not this one"):
        await connections.open(refuse)
    await connections.close()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    connections = Connections(conninfo_of("postgresql://127.0.0.1:1/database"), configure=nothing)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await connections.open()
