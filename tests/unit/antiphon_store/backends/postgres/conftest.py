"""A schema of its own for each test, on the run's shared server, and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from antiphon_store.backends.base import Durability
from antiphon_store.backends.postgres.schema import migrate
from antiphon_store.backends.postgres.server import Connection, configure
from tests.support.postgres_server import new_schema, shared_postgres


@pytest.fixture(scope="session")
def url() -> str:
    return shared_postgres().url


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
async def empty(url: str, schema: str) -> AsyncIterator[Connection]:
    """A connection of the store's to a database without its tables."""
    connection: Connection = await AsyncConnection.connect(url, autocommit=True)
    await configure(connection, schema=schema, durability=Durability.PROCESS)
    yield connection
    await connection.close()


@pytest.fixture
async def connection(empty: Connection, schema: str) -> Connection:
    """A connection to an empty store."""
    await migrate(empty, schema)
    return empty
