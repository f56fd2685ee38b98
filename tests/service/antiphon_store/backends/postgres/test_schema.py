from __future__ import annotations

import asyncio

import pytest
from psycopg import AsyncConnection, errors

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres import schema as module
from antiphon_store.backends.postgres.schema import Migration, migrate, migrations, require_current
from antiphon_store.backends.postgres.server import Connection


async def functions(connection: Connection, schema: str) -> list[str]:
    statement = "SELECT proname::text FROM pg_proc WHERE pronamespace = to_regnamespace(%s) ORDER BY 1"
    return [name for (name,) in await (await connection.execute(statement, [schema])).fetchall()]


def test_versions_count_up_from_one_and_names_say_what_they_do() -> None:
    assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))
    assert all(len(step.name.partition("_")[2]) >= 4 for step in migrations())


async def test_migrating_again_changes_nothing(empty: Connection, schema: str) -> None:
    assert await migrate(empty, schema) == [step.name for step in migrations()]
    assert await migrate(empty, schema) == []
    await require_current(empty, schema)


async def test_two_replicas_may_migrate_at_once(url: str, schema: str) -> None:
    connections = [await AsyncConnection.connect(url, autocommit=True) for _ in range(4)]
    done = await asyncio.gather(*(migrate(connection, schema) for connection in connections))
    assert sorted(map(len, done)) == [0, 0, 0, len(migrations())]
    for connection in connections:
        await connection.close()


async def test_an_empty_or_older_schema_names_the_command(
    empty: Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreUnavailable, match="version 0.*antiphon store migrate"):
        await require_current(empty, schema)
    await migrate(empty, schema)
    newer = [*migrations(), Migration(99, "0099_more", "CREATE TABLE more (a int)")]
    monkeypatch.setattr(module, "migrations", lambda: newer)
    with pytest.raises(StoreUnavailable, match="needs 99: run `antiphon store migrate`"):
        await require_current(empty, schema)
    assert await migrate(empty, schema) == ["0099_more"]
    await require_current(empty, schema)


async def test_a_newer_schema_is_refused(connection: Connection, schema: str) -> None:
    await connection.execute("INSERT INTO schema_version VALUES (1000, 'later')")
    for attempt in (migrate, require_current):
        with pytest.raises(StoreUnavailable, match="version 1000, made by a newer release"):
            await attempt(connection, schema)


async def test_a_migration_that_fails_leaves_the_old_schema(
    empty: Connection, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [*migrations(), Migration(99, "0099_broken", "CREATE TABLE more (a int); SELECT 1 / 0")]
    monkeypatch.setattr(module, "migrations", lambda: broken)
    with pytest.raises(errors.DivisionByZero):
        await migrate(empty, schema)
    assert await functions(empty, schema) == []


async def test_functions_are_named_with_their_version(connection: Connection, schema: str) -> None:
    names = await functions(connection, schema)
    assert names
    assert all(name.rpartition("_v")[2].isdigit() for name in names)
